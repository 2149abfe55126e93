package analysis

import "math/bits"

// plan is what is measured for tuples that pass the same points.
type plan struct {
	mask   uint64 // the ranks of these points
	tuples uint64
	spans  []plannedSpan // in the order of the ranks where they end
	wholes []plannedSpan // from the first point to each point where the tuple may have ended
	ends   []int         // ranks in mask that only ranks outside mask could follow
	starts []int         // ranks in mask that only ranks outside mask could precede
	goesOn uint64        // ranks in mask that another rank in mask follows; asides are left out
	// unorderedMask is a mask of two ranks whose order is not known, because no tuple of the sample
	// passed both. 0: there are no such ranks.
	unorderedMask uint64
	// joins are the ranks that several other ranks directly precede.
	joins uint64
	// copies is how many events a tuple may have at each rank: the number of branches that arrive
	// there. If copies is nil, it is one at every rank.
	copies []uint8
	// unsureRanks has the ranks where branches arrive one by one and the logs may lack the event of
	// a branch. several has the ranks where several branches arrive.
	unsureRanks, several doubt
	// openRanks is graph.openRanks if the order of some of the plan's ranks is not known. Otherwise
	// it is nil.
	openRanks []uint64
	// certainMask has the ranks that are surely on the critical path of a tuple that ended, even if
	// some order is open.
	certainMask uint64
	// chain is true if each span is surely on the critical path, whatever the times are.
	chain bool
	// ended is true if the logs show the whole tuple: it has one beginning, each of its branches
	// came to an end, and the logs show all points of its path. Other tuples have no critical path.
	ended bool
}

// plannedSpan is a span from one rank to another.
type plannedSpan struct {
	from, to int
	span     *span
	// waited is the same span, for tuples that waited at its end for another branch. nil: the
	// span's end is no point where branches meet.
	waited *span
	// mayLackBranch is true if the tuple may have had another branch to the span's end that the
	// logs do not show. gap is true if the tuple may have passed a point on this span that the logs
	// do not show.
	mayLackBranch, gap bool
	// mayBeIndirect is true if it is not known whether tuples go directly from one rank to the
	// other. rivals is true if tuples may also come to the span's end from other ranks, and the
	// plan has no spans from these ranks to that end.
	mayBeIndirect, rivals bool
	// aside is true if the span leads to an aside (graph.asides): it is on no critical path.
	aside bool

	// sources are the two logs with the events of the tuple that was measured last. part is the
	// part of span between the nodes of these logs.
	sources [2]int32
	part    *spanPart
}

// spanCritical says whether the span is on the critical path, if that is the same for all tuples of
// the plan. The parameter all is the answer for every span of the plan, except for an aside, which
// is on no critical path.
func (l *plannedSpan) spanCritical(all Critical) Critical {
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
		if g.unorderedRanks != nil && g.unorderedRanks[to]&mask != 0 {
			p.unorderedMask = 1<<to | 1<<bits.TrailingZeros64(g.unorderedRanks[to]&mask)
		}
		direct := g.directBefore(mask, to)
		if direct == 0 && on>>to&1 != 0 {
			beginnings++
			if g.ranksBefore[to] != 0 {
				p.starts = append(p.starts, to)
			}
		}
		joins := direct&(direct-1) != 0
		if joins {
			p.joins |= 1 << to
		}
		for ; direct != 0; direct &= direct - 1 {
			from := bits.TrailingZeros64(direct)
			l := plannedSpan{from: from, to: to, span: spanOf(spanKey{from: from, to: to})}
			if joins {
				l.waited = spanOf(spanKey{from, to, waitingSpan})
			}
			unseen := g.lackingLogs & g.ranksBefore[to] &^ mask
			l.mayLackBranch = unseen&^(g.ranksBefore[from]|g.ranksAfter[from]) != 0
			l.gap = unseen&g.ranksAfter[from] != 0 || g.openEnds
			l.mayBeIndirect, l.rivals = g.mayNotLead(mask, from, to), g.hasRivals(mask, from, to)
			if l.span != nil {
				l.span.mayBeIndirect = l.span.mayBeIndirect || l.mayBeIndirect
			}
			p.chain = p.chain && !l.mayLackBranch && !l.mayBeIndirect && !l.rivals
			if l.mayLackBranch && g.merges>>to&1 != 0 {
				p.unsureRanks |= 1 << to
			}
			if l.aside = g.asides>>to&1 != 0; !l.aside {
				p.goesOn |= 1 << from
			}
			p.spans = append(p.spans, l)
		}
	}
	for rest := on &^ p.goesOn; rest != 0; rest &= rest - 1 {
		if r := bits.TrailingZeros64(rest); g.ranksAfter[r] != 0 {
			p.ends = append(p.ends, r)
		}
	}
	p.unsureRanks |= doubt(mask & g.crowdedRanks)
	p.wholes = g.planWholes(on, spanOf)
	p.chain = p.chain && p.joins == 0 && len(p.wholes) == 1
	p.ended = beginnings == 1 && len(p.wholes) > 0 && len(p.ends) == 0 && p.unorderedMask == 0 &&
		!g.openEnds && !g.endUnseen(mask) && !g.callerUnseen(mask)
	if g.isOpen(mask) {
		p.openRanks, p.certainMask = g.openRanks, g.certainRanks(on)
	}
	if p.joins != 0 {
		p.copies = g.copiesAt(mask)
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
	unseen := g.lackingLogs & g.ranksAfter[bits.TrailingZeros64(mask)] &^ mask
	for rest := unseen; rest != 0; rest &= rest - 1 {
		if g.ranksAfter[bits.TrailingZeros64(rest)]&mask == 0 {
			return true
		}
	}
	return false
}

// isOpen reports whether the order in which tuples pass some of the given ranks is unknown.
func (g *graph) isOpen(mask uint64) bool {
	for rest := mask; g.openRanks != nil && rest != 0; rest &= rest - 1 {
		if g.openRanks[bits.TrailingZeros64(rest)]&mask != 0 {
			return true
		}
	}
	return false
}

// mayNotLead reports whether tuples may fail to go directly from one rank to another: the order of
// the two is open, or another given rank may lie between.
func (g *graph) mayNotLead(mask uint64, from, to int) bool {
	if g.openRanks == nil {
		return false
	}
	found := g.openRanks[from]>>to&1 != 0
	for rest := mask & (g.ranksBefore[to] | g.openRanks[to]); rest != 0; rest &= rest - 1 {
		r := bits.TrailingZeros64(rest)
		after, mayBeAfter := g.ranksBefore[r]>>from&1 != 0, g.openRanks[r]>>from&1 != 0
		found = found || mayBeAfter || after && g.openRanks[to]>>r&1 != 0
	}
	return found
}

// hasRivals reports whether tuples may come to the end of a planned span from a rival of the span's
// beginning. A rival is another rank that surely does not precede the beginning.
func (g *graph) hasRivals(mask uint64, from, to int) bool {
	return g.openRanks != nil &&
		mask&g.openRanks[to]&^(g.ranksBefore[from]|g.openRanks[from]|1<<from) != 0
}

// certainRanks returns the given ranks whose order is known relative to all other given ranks, and
// to all ranks where logs lack tuples. Every path leads over them, even if some other order is
// open.
func (g *graph) certainRanks(mask uint64) (found uint64) {
	all := mask | g.lackingLogs
	for rest := mask; rest != 0; rest &= rest - 1 {
		r := bits.TrailingZeros64(rest)
		if all&^(g.ranksBefore[r]|g.ranksAfter[r]|1<<r) == 0 && g.openRanks[r]&mask == 0 {
			found |= 1 << r
		}
	}
	return found
}

// callerUnseen reports whether an actor at one of the given ranks may have been called by an actor
// whose first rank is not given. Then the tuple may have ended elsewhere.
func (g *graph) callerUnseen(mask uint64) bool {
	for rest := mask; g.calledRanks != nil && rest != 0; rest &= rest - 1 {
		if g.calledRanks[bits.TrailingZeros64(rest)]&^mask != 0 {
			return true
		}
	}
	return false
}

// allAlike reports whether all tuples of the plan have the same critical path and pass the same
// point last, and none of their events is in doubt.
func (p *plan) allAlike() bool {
	return (p.chain || p.joins == 0 && len(p.wholes) == 0) && p.unsureRanks|p.several == 0
}

// oneEach returns the doubts about a tuple that has one event at each rank.
func (p *plan) oneEach() doubts {
	return doubts{lacksBranch: p.unsureRanks, fitsNoBranches: p.several}
}

// planWholes plans spans from where a tuple begins to each of its last points.
func (g *graph) planWholes(mask uint64, spanOf func(spanKey) *span) (all []plannedSpan) {
	if mask == 0 {
		return nil
	}
	first := bits.TrailingZeros64(mask)
	if g.ranksBefore[first] != 0 {
		return nil
	}
	for rest := mask & g.ranksAfter[first]; rest != 0; rest &= rest - 1 {
		if last := bits.TrailingZeros64(rest); g.ranksAfter[last] == 0 {
			all = append(all, plannedSpan{
				from: first, to: last, span: spanOf(spanKey{first, last, wholePath}),
			})
		}
	}
	return all
}

// copiesAt returns how many events a tuple with these points may have at each rank.
func (g *graph) copiesAt(mask uint64) []uint8 {
	all := make([]uint8, maxPoints)
	for rest := mask; rest != 0; rest &= rest - 1 {
		r := bits.TrailingZeros64(rest)
		all[r] = 1
		if g.merges>>r&1 == 0 {
			continue
		}
		n := 0
		for direct := g.directBefore(mask, r); direct != 0; direct &= direct - 1 {
			n += int(all[bits.TrailingZeros64(direct)])
		}
		all[r] = uint8(min(max(n, 1), 255))
	}
	return all
}
