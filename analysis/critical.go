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

// critical sums up durations that are on critical paths.
type critical struct {
	surely, perhaps, unplaced uint64
	// doubtful is the number of tuples whose events are in doubt. Their times may have been spent
	// on any span (see assembler.spilled).
	doubtful uint64
	sums
}

// add adds durations that are surely on critical paths.
func (c *critical) add(elapsed []tscratio.Elapsed) {
	c.surely += uint64(len(elapsed))
	c.sums.add(elapsed)
}

// maybe adds a duration that is perhaps on a critical path. The interval of the sum includes both
// cases: the duration is on the path, or it is not.
func (c *critical) maybe(d tscratio.Elapsed) {
	c.perhaps++
	c.lo.add(min(d.Lo, 0))
	c.hi.add(max(d.Hi, 0))
}

func (c *critical) merge(d *critical) {
	c.surely += d.surely
	c.perhaps += d.perhaps
	c.unplaced += d.unplaced
	c.doubtful += d.doubtful
	c.sums.merge(d.sums)
}

// longest adds the longest of several durations. Each of them may be the length of a critical path.
func (c *critical) longest(all []tscratio.Elapsed) {
	longest := all[0]
	for _, d := range all {
		longest.Lo, longest.Hi = max(longest.Lo, d.Lo), max(longest.Hi, d.Hi)
	}
	c.perhaps++
	c.lo.add(longest.Lo)
	c.hi.add(longest.Hi)
}

// share is the share of a span in an end-to-end time. It gets the sum of the end-to-end times
// (total), and the sum of all other spans on critical paths (others). The time that was not spent
// on this span is known in two ways: it is others, and it is total less the time on this span. At
// each end, the tighter of the two limits is used.
func (c *critical) share(total, others *critical) (s Share, known bool) {
	lo, hi := c.lo.float(), c.hi.float()
	if c.unplaced+total.unplaced+others.unplaced > 0 || hi < 0 || total.lo.float() <= 0 {
		// Some durations are not known, or are negative, which breaks an assumption.
		return Share{}, false
	}
	lo = max(lo, 0)
	least := max(total.lo.float()-hi, others.lo.float(), 0)
	most := max(min(total.hi.float()-lo, others.hi.float()), least)
	const digits = 1e6
	if lo > 0 {
		s.Lo = math.Floor(lo/(lo+most)*digits) / digits
	}
	if hi > 0 {
		s.Hi = math.Ceil(hi/(hi+least)*digits) / digits
	}
	return s, true
}

// latest finds which of several events may be the latest, and returns a bit for each. If there is
// only one such event, surely is true. If two events cannot be compared, either may be the later.
func (t *timer) latest(events []passage) (may uint64, surely bool) {
	may = 1<<len(events) - 1
	for i, a := range events {
		for _, b := range events {
			d, err := t.between(int(a.source), int(b.source), a.reading, b.reading)
			if err == nil && d.Lo > 0 {
				may &^= 1 << i
				break
			}
		}
	}
	return may, may&(may-1) == 0
}

// judged says two things about each span of a tuple's plan: whether it is on the critical path, and
// whether the tuple waited at its end for another branch.
type judged struct {
	critical []Critical
	waited   []bool
	on       [maxPoints]Critical // by rank: whether the critical path leads over the event
	last     int                 // the point that the tuple passed last, as an index of plan.wholes
	surely   bool                // no other point may be the last

	events  []passage // scratch space
	chosen  []int
	elapsed []tscratio.Elapsed
}

// judge finds the critical path of a tuple. If whole is false, the tuple's whole path is not known,
// and no span is critical.
func (j *judged) judge(t *timer, p *plan, path *[maxPoints]passage, whole bool) {
	j.critical = append(j.critical[:0], make([]Critical, len(p.spans))...)
	j.waited = append(j.waited[:0], make([]bool, len(p.spans))...)
	j.on = [maxPoints]Critical{}
	j.events = j.events[:0]
	for i := range p.wholes {
		j.events = append(j.events, path[p.wholes[i].to])
	}
	may, surely := t.latest(j.events)
	j.surely = surely && whole
	for rest := may; whole && rest != 0; rest &= rest - 1 {
		i := bits.TrailingZeros64(rest)
		j.on[p.wholes[i].to] = PerhapsCritical
		if surely {
			j.on[p.wholes[i].to] = SurelyCritical
		}
	}
	j.last = t.latestMiddle(j.events, may)
	for rest := p.certain; whole && rest != 0; rest &= rest - 1 {
		j.on[bits.TrailingZeros64(rest)] = SurelyCritical
	}
	for end := len(p.spans); end > 0; { // the spans that end at one rank are neighbours
		to, first := p.spans[end-1].to, end-1
		for first > 0 && p.spans[first-1].to == to {
			first--
		}
		if p.open != nil {
			for rest := p.open[to] & p.mask; rest != 0; rest &= rest - 1 {
				r := bits.TrailingZeros64(rest)
				j.on[r] = max(j.on[r], min(j.on[to], PerhapsCritical))
			}
		}
		j.arrive(t, p.spans[first:end], first, path)
		end = first
	}
}

// arrive judges the spans that end at one point. index is the place of the first of them in the
// plan's list of spans.
func (j *judged) arrive(t *timer, spans []planned, index int, path *[maxPoints]passage) {
	lacking, open := false, false
	for i := range spans {
		lacking, open = lacking || spans[i].lacking, open || spans[i].open
	}
	may, surely := j.latest(t, spans, path, func(*planned) bool { return true })
	known := may // without the open spans: those that may be the latest
	if open {
		known, _ = j.latest(t, spans, path, func(l *planned) bool { return !l.open })
	}
	for i := range spans {
		l := &spans[i]
		if !l.open && known>>i&1 == 0 {
			j.waited[index+i] = true
			continue
		}
		c := j.on[l.to]
		if !surely || lacking || l.open || l.rivals || may>>i&1 == 0 {
			c = min(c, PerhapsCritical)
		}
		j.critical[index+i] = c
		j.on[l.from] = max(j.on[l.from], c)
	}
}

// latest considers the chosen spans, which all lead to one point. It finds those that may begin
// with the latest event.
func (j *judged) latest(t *timer, spans []planned, path *[maxPoints]passage,
	chosen func(*planned) bool) (may uint64, surely bool) {
	j.events, j.chosen = j.events[:0], j.chosen[:0]
	for i := range spans {
		if chosen(&spans[i]) {
			j.events, j.chosen = append(j.events, path[spans[i].from]), append(j.chosen, i)
		}
	}
	latest, _ := t.latest(j.events)
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
