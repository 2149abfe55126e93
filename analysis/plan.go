package analysis

import "math/bits"

// plan is what is measured for tuples that pass the same points.
type plan struct {
	mask   uint64 // the ranks of these points
	tuples uint64
	spans  []planned // in the order of the ranks where they end
	wholes []planned // from the first point to each point where the tuple may have ended
	ends   []int     // ranks in mask that only ranks outside mask could follow
	starts []int     // ranks in mask that only ranks outside mask could precede
	goesOn uint64    // ranks in mask that another rank in mask follows; asides are left out
	// apart is a mask of two ranks whose order is not known, because no tuple of the sample passed
	// both. 0: there are no such ranks.
	apart uint64
	// joins are the ranks that several other ranks directly precede.
	joins uint64
	// copies is how many events a tuple may have at each rank: as many as branches arrive; nil:
	// one.
	copies []uint8
	// unsure has the ranks where branches arrive one by one and the logs may lack the event of a
	// branch. several has the ranks where several branches arrive.
	unsure, several doubt
	// open has for each rank the ranks that may precede it, as in graph; nil: there are none.
	open []uint64
	// certain has the ranks that are surely on the critical path of a tuple that ended, even if
	// some order is open.
	certain uint64
	// chain is true if each span is surely on the critical path, whatever the times are.
	chain bool
	// ended is true if the logs show the whole tuple: it has one beginning, each of its branches
	// came to an end, and the logs show all points of its path. Other tuples have no critical path.
	ended bool
}

// planned is a span from one rank to another.
type planned struct {
	from, to int
	span     *span
	// waited is the same span, for tuples that waited at its end for another branch. nil: the
	// span's end is no point where branches meet.
	waited *span
	// lacking is true if the tuple may have had another branch to the span's end that the logs do
	// not show. gap is true if the tuple may have passed a point on this span that the logs do not
	// show.
	lacking, gap bool
	// open is true if it is not known whether tuples go directly from one rank to the other. rivals
	// is true if tuples may also come to the span's end from other ranks, for which the plan has no
	// span to that end.
	open, rivals bool
	// aside is true if the span leads to an aside (graph.asides): it is on no critical path.
	aside bool

	// sources are the two logs that had the events of the tuple that was measured before. part is
	// the part of span between the nodes of these logs.
	sources [2]int32
	part    *spanPart
}

// critical says whether the span is on the critical path, if that is the same for all tuples of the
// plan. It returns what it is given, except for an aside, which is on no critical path.
func (l *planned) critical(all Critical) Critical {
	if l.aside {
		return NotCritical
	}
	return all
}

// planOf makes the plan for a set of points.
func (g *graph) planOf(mask uint64, spanOf func(spanKey) *span) *plan {
	p := &plan{mask: mask, chain: true}
	beginnings, on := 0, mask&^g.asides
	for rest := mask; rest != 0; rest &= rest - 1 {
		to := bits.TrailingZeros64(rest)
		if g.apart != nil && g.apart[to]&mask != 0 {
			p.apart = 1<<to | 1<<bits.TrailingZeros64(g.apart[to]&mask)
		}
		direct := g.direct(mask, to)
		if direct == 0 && on>>to&1 != 0 {
			beginnings++
			if g.before[to] != 0 {
				p.starts = append(p.starts, to)
			}
		}
		joins := direct&(direct-1) != 0
		if joins {
			p.joins |= 1 << to
		}
		for ; direct != 0; direct &= direct - 1 {
			from := bits.TrailingZeros64(direct)
			l := planned{from: from, to: to, span: spanOf(spanKey{from: from, to: to})}
			if joins {
				l.waited = spanOf(spanKey{from, to, waiting})
			}
			unseen := g.lacking & g.before[to] &^ mask
			l.lacking = unseen&^(g.before[from]|g.after[from]) != 0
			l.gap = unseen&g.after[from] != 0 || g.openEnds
			l.open, l.rivals = g.mayNotLead(mask, from, to), g.hasRivals(mask, from, to)
			if l.span != nil {
				l.span.open = l.span.open || l.open
			}
			p.chain = p.chain && !l.lacking && !l.open && !l.rivals
			if l.lacking && g.merges>>to&1 != 0 {
				p.unsure |= 1 << to
			}
			if l.aside = g.asides>>to&1 != 0; !l.aside {
				p.goesOn |= 1 << from
			}
			p.spans = append(p.spans, l)
		}
	}
	for rest := on &^ p.goesOn; rest != 0; rest &= rest - 1 {
		if r := bits.TrailingZeros64(rest); g.after[r] != 0 {
			p.ends = append(p.ends, r)
		}
	}
	p.unsure |= doubt(mask & g.crowded)
	p.wholes = g.wholes(on, spanOf)
	p.chain = p.chain && p.joins == 0 && len(p.wholes) == 1
	p.ended = beginnings == 1 && len(p.wholes) > 0 && len(p.ends) == 0 && p.apart == 0 &&
		!g.openEnds && !g.endUnseen(mask) && !g.callerUnseen(mask)
	if g.isOpen(mask) {
		p.open, p.certain = g.open, g.certain(on)
	}
	if p.joins != 0 {
		p.copies = g.copies(mask)
		for r, n := range p.copies {
			if n > 1 {
				p.several |= 1 << r
			}
		}
	}
	return p
}

// endUnseen reports whether a tuple, or a branch of it, may have ended at a point where the logs do
// not show it.
func (g *graph) endUnseen(mask uint64) bool {
	unseen := g.lacking & g.after[bits.TrailingZeros64(mask)] &^ mask
	for rest := unseen; rest != 0; rest &= rest - 1 {
		if g.after[bits.TrailingZeros64(rest)]&mask == 0 {
			return true
		}
	}
	return false
}

// isOpen reports whether the order in which tuples pass some of the given ranks is unknown.
func (g *graph) isOpen(mask uint64) bool {
	for rest := mask; g.open != nil && rest != 0; rest &= rest - 1 {
		if g.open[bits.TrailingZeros64(rest)]&mask != 0 {
			return true
		}
	}
	return false
}

// mayNotLead reports whether tuples may fail to go directly from one rank to another: the order of
// the two is open, or another given rank may lie between.
func (g *graph) mayNotLead(mask uint64, from, to int) bool {
	if g.open == nil {
		return false
	}
	found := g.open[from]>>to&1 != 0
	for rest := mask & (g.before[to] | g.open[to]); rest != 0; rest &= rest - 1 {
		r := bits.TrailingZeros64(rest)
		after, mayBeAfter := g.before[r]>>from&1 != 0, g.open[r]>>from&1 != 0
		found = found || mayBeAfter || after && g.open[to]>>r&1 != 0
	}
	return found
}

// hasRivals is about a planned span between two ranks. It reports whether tuples may come to the
// span's end from a rival of its beginning: another rank, which surely does not precede the
// beginning.
func (g *graph) hasRivals(mask uint64, from, to int) bool {
	return g.open != nil && mask&g.open[to]&^(g.before[from]|g.open[from]|1<<from) != 0
}

// certain returns the given ranks whose order is known relative to all other given ranks, and to
// all ranks where logs lack tuples. Every path leads over them, even if some other order is open.
func (g *graph) certain(mask uint64) (found uint64) {
	all := mask | g.lacking
	for rest := mask; rest != 0; rest &= rest - 1 {
		r := bits.TrailingZeros64(rest)
		if all&^(g.before[r]|g.after[r]|1<<r) == 0 && g.open[r]&mask == 0 {
			found |= 1 << r
		}
	}
	return found
}

// callerUnseen reports whether an actor at one of the given ranks may have been called by an actor
// whose first rank is not given. Then the tuple may have ended elsewhere.
func (g *graph) callerUnseen(mask uint64) bool {
	for rest := mask; g.called != nil && rest != 0; rest &= rest - 1 {
		if g.called[bits.TrailingZeros64(rest)]&^mask != 0 {
			return true
		}
	}
	return false
}

// alike reports whether all tuples of the plan have the same critical path and pass the same point
// last, and none of their events is in doubt.
func (p *plan) alike() bool {
	return (p.chain || p.joins == 0 && len(p.wholes) == 0) && p.unsure|p.several == 0
}

// oneEach returns the doubts about a tuple that has one event at each rank.
func (p *plan) oneEach() doubts {
	return doubts{lacksBranch: p.unsure, fitsNoBranches: p.several}
}

// wholes plans spans from where a tuple begins to each of its last points.
func (g *graph) wholes(mask uint64, spanOf func(spanKey) *span) (all []planned) {
	if mask == 0 {
		return nil
	}
	first := bits.TrailingZeros64(mask)
	if g.before[first] != 0 {
		return nil
	}
	for rest := mask & g.after[first]; rest != 0; rest &= rest - 1 {
		if last := bits.TrailingZeros64(rest); g.after[last] == 0 {
			all = append(all, planned{
				from: first, to: last, span: spanOf(spanKey{first, last, wholePath}),
			})
		}
	}
	return all
}

// copies returns how many events a tuple with these points may have at each rank.
func (g *graph) copies(mask uint64) []uint8 {
	all := make([]uint8, maxPoints)
	for rest := mask; rest != 0; rest &= rest - 1 {
		r := bits.TrailingZeros64(rest)
		all[r] = 1
		if g.merges>>r&1 == 0 {
			continue
		}
		n := 0
		for direct := g.direct(mask, r); direct != 0; direct &= direct - 1 {
			n += int(all[bits.TrailingZeros64(direct)])
		}
		all[r] = uint8(min(max(n, 1), 255))
	}
	return all
}
