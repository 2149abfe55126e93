package analysis

import (
	"math"
	"math/bits"

	"github.com/cloudprofiler/cloudprofiler/tscratio"
)

// A tuple's critical path leads back from where the tuple ended. At a point where branches meet, it
// follows the branch that arrived last. Branches that arrived earlier waited: if they were faster,
// the tuple would not end earlier.

// Critical says whether a span is on the critical path of a tuple.
type Critical uint8

const (
	NotCritical     Critical = iota // another branch surely arrived later
	PerhapsCritical                 // the bounds or the logs do not tell
	SurelyCritical
)

var criticalWords = []string{"no", "perhaps", "surely"}

func (c Critical) String() string { return criticalWords[c] }

// criticalSums sums up durations that are on critical paths.
type criticalSums struct {
	surely, perhaps, unplaced uint64
	// doubtful is the number of tuples whose events are in doubt. Their times may have been spent
	// on any span (see assembler.spilledTime).
	doubtful uint64
	sums
}

// add adds durations that are surely on critical paths.
func (c *criticalSums) add(elapsed []tscratio.Elapsed) {
	c.surely += uint64(len(elapsed))
	c.sums.add(elapsed)
}

// addMaybe adds a duration that is perhaps on a critical path. The interval of the sum includes
// both cases: the duration is on the path, or it is not.
func (c *criticalSums) addMaybe(d tscratio.Elapsed) {
	c.perhaps++
	c.lo.add(min(d.Lo, 0))
	c.hi.add(max(d.Hi, 0))
}

func (c *criticalSums) merge(d *criticalSums) {
	c.surely += d.surely
	c.perhaps += d.perhaps
	c.unplaced += d.unplaced
	c.doubtful += d.doubtful
	c.sums.merge(d.sums)
}

// addLongest adds the longest of several durations. Each of them may be the length of a critical
// path.
func (c *criticalSums) addLongest(all []tscratio.Elapsed) {
	longest := all[0]
	for _, d := range all {
		longest.Lo, longest.Hi = max(longest.Lo, d.Lo), max(longest.Hi, d.Hi)
	}
	c.perhaps++
	c.lo.add(longest.Lo)
	c.hi.add(longest.Hi)
}

// share returns the share of a span in the end-to-end times. total is the sum of the end-to-end
// times, and others is the sum of all other spans on critical paths. The time that was not spent on
// this span is in two intervals: in others, and in the difference of total and the time on this
// span. share uses the part that both intervals have in common.
func (c *criticalSums) share(total, others *criticalSums) (s Share, known bool) {
	lo, hi := c.lo.toFloat(), c.hi.toFloat()
	if c.unplaced+total.unplaced+others.unplaced > 0 || hi < 0 || total.lo.toFloat() <= 0 {
		// Some durations are not known, or some are negative because an assumption is broken.
		return Share{}, false
	}
	lo = max(lo, 0)
	least := max(total.lo.toFloat()-hi, others.lo.toFloat(), 0)
	most := max(min(total.hi.toFloat()-lo, others.hi.toFloat()), least)
	const digits = 1e6
	if lo > 0 {
		s.Lo = math.Floor(lo/(lo+most)*digits) / digits
	}
	if hi > 0 {
		s.Hi = math.Ceil(hi/(hi+least)*digits) / digits
	}
	return s, true
}

// latestEvents finds which of several events may be the latest, and returns a bit for each. If
// there is only one such event, surely is true. If two events cannot be compared, either may be the
// later.
func (t *timer) latestEvents(events []passage) (may uint64, surely bool) {
	may = 1<<len(events) - 1
	for i, a := range events {
		for _, b := range events {
			d, err := t.durationBetween(int(a.source), int(b.source), a.reading, b.reading)
			if err == nil && d.Lo > 0 {
				may &^= 1 << i
				break
			}
		}
	}
	return may, may&(may-1) == 0
}

// judgedTuple says two things about each span of a tuple's plan: whether it is on the critical
// path, and whether the tuple waited at the span's end for another branch.
type judgedTuple struct {
	critical   []Critical
	waited     []bool
	criticalAt [maxPoints]Critical // by rank: whether the critical path leads over the event
	// the point that the tuple passed last, as an index of plan.wholes
	last       int
	surelyLast bool // no other point may be the last

	events  []passage // scratch space
	chosen  []int
	elapsed []tscratio.Elapsed
}

// judge finds the critical path of a tuple. If whole is false, the tuple's whole path is not known,
// and no span is critical.
func (j *judgedTuple) judge(t *timer, p *plan, path *[maxPoints]passage, whole bool) {
	j.critical = append(j.critical[:0], make([]Critical, len(p.spans))...)
	j.waited = append(j.waited[:0], make([]bool, len(p.spans))...)
	j.criticalAt = [maxPoints]Critical{}
	j.events = j.events[:0]
	for i := range p.wholes {
		j.events = append(j.events, path[p.wholes[i].to])
	}
	may, surely := t.latestEvents(j.events)
	j.surelyLast = surely && whole
	for rest := may; whole && rest != 0; rest &= rest - 1 {
		i := bits.TrailingZeros64(rest)
		j.criticalAt[p.wholes[i].to] = PerhapsCritical
		if surely {
			j.criticalAt[p.wholes[i].to] = SurelyCritical
		}
	}
	j.last = t.latestMiddle(j.events, may)
	for rest := p.certainMask; whole && rest != 0; rest &= rest - 1 {
		j.criticalAt[bits.TrailingZeros64(rest)] = SurelyCritical
	}
	for end := len(p.spans); end > 0; { // the spans that end at one rank are neighbours
		to, first := p.spans[end-1].to, end-1
		for first > 0 && p.spans[first-1].to == to {
			first--
		}
		if p.openRanks != nil {
			for rest := p.openRanks[to] & p.mask; rest != 0; rest &= rest - 1 {
				r := bits.TrailingZeros64(rest)
				j.criticalAt[r] = max(j.criticalAt[r], min(j.criticalAt[to], PerhapsCritical))
			}
		}
		j.judgeArrivals(t, p.spans[first:end], first, path)
		end = first
	}
}

// judgeArrivals judges the spans that end at one point. index is the place of the first of them in
// the plan's list of spans.
func (j *judgedTuple) judgeArrivals(t *timer, spans []plannedSpan, index int,
	path *[maxPoints]passage) {
	lacking, open := false, false
	for i := range spans {
		lacking, open = lacking || spans[i].mayLackBranch, open || spans[i].mayBeIndirect
	}
	may, surely := j.latestSpans(t, spans, path, func(*plannedSpan) bool { return true })
	known := may // without the open spans: those that may be the latest
	if open {
		known, _ = j.latestSpans(t, spans, path,
			func(l *plannedSpan) bool { return !l.mayBeIndirect })
	}
	for i := range spans {
		l := &spans[i]
		if !l.mayBeIndirect && known>>i&1 == 0 {
			j.waited[index+i] = true
			continue
		}
		c := j.criticalAt[l.to]
		if !surely || lacking || l.mayBeIndirect || l.rivals || may>>i&1 == 0 {
			c = min(c, PerhapsCritical)
		}
		j.critical[index+i] = c
		j.criticalAt[l.from] = max(j.criticalAt[l.from], c)
	}
}

// latestSpans considers the chosen spans, which all lead to one point. It finds those that may
// begin with the latest event.
func (j *judgedTuple) latestSpans(t *timer, spans []plannedSpan, path *[maxPoints]passage,
	chosen func(*plannedSpan) bool) (may uint64, surely bool) {
	j.events, j.chosen = j.events[:0], j.chosen[:0]
	for i := range spans {
		if chosen(&spans[i]) {
			j.events, j.chosen = append(j.events, path[spans[i].from]), append(j.chosen, i)
		}
	}
	latest, _ := t.latestEvents(j.events)
	for k, i := range j.chosen {
		may |= latest >> k & 1 << i
	}
	for i := range spans {
		if spans[i].gap && len(spans) > 1 { // an event that is not logged may be the latest
			may |= 1 << i
		}
	}
	return may, may&(may-1) == 0
}
