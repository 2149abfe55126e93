package analysis

import (
	"fmt"
	"math/bits"
)

// noShares says why the shares of a path's spans are withheld. It gets the ranks of the path's
// points (mask), and the sum over all tuples with a whole path (total). If shares can be computed,
// it returns no reason. If it returns no rule (sample) either, the shares describe all tuples with
// a whole path. If it returns a rule, they describe only the tuples that this rule chose.
//
// The logs of points between the first and the last may lack tuples. The intervals of the shares
// then include the time that the logs do not show (graph.allowUnseen).
func (a *assembler) noShares(mask uint64, total *criticalSums) (sample, why string) {
	sample, lack := a.sampledEnds(mask)
	if len(lack.Why) > 0 {
		return "", "the logs of points where tuples begin or end do not have every tuple: " +
			lack.Because()
	}
	ends := a.lastPoints(mask)
	lacking := a.graph.lackingLogs & mask
	for rest := lacking; rest != 0; rest &= rest - 1 {
		r := bits.TrailingZeros64(rest)
		name := a.in.points[a.graph.order[r]]
		if ends&^(1<<r)&^a.graph.ranksAfter[r] != 0 {
			return "", fmt.Sprintf("a tuple may have gone on from %s unseen, and have no end: %s",
				name, a.completeness(r, "").Because())
		}
		if a.found.points[r].duplicates > 0 && a.sampledByID(r) == "" {
			return "", fmt.Sprintf("tuples have several events at %s, and the first may be "+
				"lacking: %s", name, a.completeness(r, "").Because())
		}
	}
	switch whole := total.surely + total.perhaps; {
	case lacking != 0 && total.doubtful > 0:
		return "", fmt.Sprintf("%d tuples may have come to an end, but the logs may lack some of "+
			"their events, or their ids are used again", total.doubtful)
	case whole == 0 && lacking != 0:
		return "", "no tuple's whole path is in the logs"
	}
	return sample, ""
}

// addUnseen adds, to the ranks of a path, those ranks that its tuples may have passed
// although no log shows them there.
func (g *graph) addUnseen(mask uint64) uint64 {
	for rest := mask; rest != 0; rest &= rest - 1 {
		r := bits.TrailingZeros64(rest)
		mask |= g.lackingLogs & (g.ranksBefore[r] | g.ranksAfter[r])
	}
	return mask
}

// lastPoints returns the last points of a path.
func (a *assembler) lastPoints(mask uint64) (last uint64) {
	for rest := mask &^ a.graph.asides; rest != 0; rest &= rest - 1 {
		if r := bits.TrailingZeros64(rest); a.graph.ranksAfter[r]&mask == 0 {
			last |= 1 << r
		}
	}
	return last
}

// sampledEnds finds which tuples have their beginning and their end in the logs. These may be all
// tuples, or all tuples that a rule chose by their ids. In the second case, sampledEnds returns the
// rule. If neither case applies, it says what the logs lack (why).
func (a *assembler) sampledEnds(mask uint64) (rule string, why Completeness) {
	c := a.unseenPoints()
	lacks := c.Lacks()
	ends := a.lastPoints(mask)
	for _, side := range []func(r int) bool{
		func(r int) bool { return a.graph.ranksBefore[r]&mask == 0 },
		func(r int) bool { return ends>>r&1 != 0 },
	} {
		rules := map[string]bool{}
		for rest := mask; rest != 0; rest &= rest - 1 {
			r := bits.TrailingZeros64(rest)
			all := a.completeness(r, "")
			if !side(r) {
				continue
			}
			c = c.combineWith(all)
			chosen := ""
			if all.Lacks() {
				chosen = a.sampledByID(r)
				lacks = lacks || chosen == "" || a.completeness(r, chosen).Lacks()
			}
			rules[chosen] = true
			lacks = lacks || rule != "" && chosen != "" && chosen != rule
			rule = max(rule, chosen)
		}
		lacks = lacks || len(rules) > 1
	}
	if lacks {
		return "", c
	}
	return rule, Completeness{}
}

// unseenPoints says which points of the run have no log among those that were read. A tuple may
// have passed them, begun there or ended there.
func (a *assembler) unseenPoints() Completeness {
	c := a.in.ofRun()
	for p, why := range a.in.unseen {
		if tripPoints[p.name] == noTrip && !a.in.hasPoint(p) {
			c = c.combineWith(Completeness{Unknown, []string{why}})
		}
	}
	return c
}

// ofPath says how many of the tuples that passed the points of a path are in the logs.
func (a *assembler) ofPath(mask uint64) Completeness {
	c := a.unseenPoints()
	for rest := mask; rest != 0; rest &= rest - 1 {
		c = c.combineWith(a.completeness(bits.TrailingZeros64(rest), ""))
	}
	return c
}

// shares returns the share of each span of a path in the end-to-end time. A share is nil if it is
// not known.
func (a *assembler) shares(spans []Span, mask uint64, total, spilled *criticalSums,
	of func(*Span) bool) []*Share {
	all := make([]*Share, len(spans))
	for i, l := range a.between {
		if !of(&spans[i]) || l.critical.hi.toFloat() < 0 { // as in share
			continue
		}
		c, others := l.critical, criticalSums{}
		c.hi.merge(spilled.hi)
		others.hi.merge(spilled.hi)
		for j, o := range a.between {
			switch {
			case j == i || !of(&spans[j]):
			case a.graph.hidesIn(l.key, o.key):
				c.hi.merge(o.critical.hi)
				c.unplaced += o.critical.unplaced
				others.hi.merge(o.critical.hi)
			default:
				others.merge(&o.critical)
			}
		}
		a.graph.allowUnseen(mask, l.key, &c, &others, total)
		if s, known := c.share(total, &others); known {
			all[i] = &s
		}
	}
	return all
}

// hidesIn reports whether time on the span l may be hidden in another span, a gap. If a tuple has
// no event at an end of l, it has no duration for l. Then its time on l is a part of its duration
// for the gap.
func (g *graph) hidesIn(l, gap spanKey) bool {
	if l.kind != directSpan || gap.kind != directSpan || l == gap {
		return false
	}
	inside := g.ranksAfter[gap.from] & g.ranksBefore[gap.to] & g.lackingLogs
	return (l.from == gap.from || inside>>l.from&1 != 0) &&
		(l.to == gap.to || inside>>l.to&1 != 0)
}

// allowUnseen widens the time on a span (c), and the time on all other spans (others), by the time
// that the logs may not show. If a tuple has no event at a point, it may have passed that point on
// a branch parallel to the branches that have events. Then only the end-to-end time limits the time
// on the span.
func (g *graph) allowUnseen(mask uint64, l spanKey, c, others, total *criticalSums) {
	if g.lackingLogs&mask == 0 {
		return
	}
	others.hi = total.hi
	for rest := g.lackingLogs & (1<<l.from | 1<<l.to); rest != 0; rest &= rest - 1 {
		r := bits.TrailingZeros64(rest)
		if mask&^(g.ranksBefore[r]|g.ranksAfter[r]|1<<r) != 0 &&
			c.hi.toFloat() < total.hi.toFloat() {
			c.hi = total.hi
		}
	}
}
