package analysis

import (
	"cmp"
	"math/bits"
	"slices"
)

// If made is true, slowestOf returns the slowest of the tuples that were made of other tuples. If
// made is false, it returns the slowest of the tuples that were not. Slow tuples are stored by the
// point where they begin. Of the tuples that begin at one point, either all were made of other
// tuples or none was.
func (a *assembler) slowestOf(made bool) []slowTuple {
	var all slowestTuples
	for r := range a.found.slowest {
		for _, s := range a.found.slowest[r].kept {
			p := &a.found.points[min(r, len(a.found.points)-1)]
			if (p.madeOfOthers > 0 && p.madeOfOthers == p.tuples) == made {
				all.keepTuple(s, a.in.options.Slowest)
			}
		}
	}
	return all.kept
}

// pathOfTuple returns a tuple's whole path.
func (a *assembler) pathOfTuple(s slowTuple, made bool) TuplePath {
	w := TuplePath{ID: Reading(s.id), Total: intervalOf(s.total), Made: made}
	var at [maxPoints]passage
	var index [maxPoints]int
	var mask uint64
	for i, e := range s.path {
		src := &a.in.sources[e.source]
		r := a.graph.rankOf(src)
		at[r], index[r] = e, i
		mask |= 1 << r
		p := Passed{
			Point: a.in.points[src.point].String(), Channel: src.name,
			Node: a.in.nodes[src.node].Name, Reading: Reading(e.reading),
		}
		if d, err := a.timer.durationBetween(int(s.path[0].source), int(e.source),
			s.path[0].reading,
			e.reading); err == nil {
			p.At, p.Verdict = intervalOf(d.Elapsed), d.Verdict.String()
		}
		w.Passed = append(w.Passed, p)
	}
	plan := a.graph.planOf(mask, func(spanKey) *span { return nil })
	var j judgedTuple
	j.judge(a.timer, plan, &at, plan.ended)
	for r, c := range j.criticalAt {
		if mask>>r&1 != 0 {
			w.Passed[index[r]].Critical = c.String()
		}
	}
	for _, l := range plan.spans {
		to := &w.Passed[index[l.to]]
		to.After = append(to.After, Arrival{From: index[l.from]})
	}
	a.tellPausesOf(&w, s, plan.spans, j.critical, &at)
	for r := range at {
		if mask>>r&1 != 0 && len(w.Passed[index[r]].After) > 0 {
			a.arrivalTimes(&w, s.path, index[r])
		}
	}
	return w
}

// arrivalTimes computes how long event i happened after each event directly before it.
func (a *assembler) arrivalTimes(w *TuplePath, path []passage, i int) {
	to := &w.Passed[i]
	slices.SortFunc(to.After, func(x, y Arrival) int { return cmp.Compare(x.From, y.From) })
	var before []passage
	for _, k := range to.After {
		before = append(before, path[k.From])
	}
	may, _ := a.timer.latestEvents(before)
	last := a.timer.latestMiddle(before, may)
	since := func(x, y passage) *Interval {
		d, err := a.timer.durationBetween(int(x.source), int(y.source), x.reading, y.reading)
		if err != nil {
			return nil
		}
		t := intervalOf(d.Elapsed)
		return &t
	}
	for n := range to.After {
		to.After[n].Since = since(before[n], path[i])
		if may>>n&1 == 0 {
			var slack *Interval // until the latest of the events that may be the last
			for rest := may; rest != 0; rest &= rest - 1 {
				d := since(before[n], before[bits.TrailingZeros64(rest)])
				if d != nil && slack != nil {
					d.Lo_cycles = max(d.Lo_cycles, slack.Lo_cycles)
					d.Hi_cycles = max(d.Hi_cycles, slack.Hi_cycles)
				}
				slack = cmp.Or(d, slack)
			}
			to.After[n].Slack = slack
		}
	}
	to.Since = to.After[last].Since
	if a.in.pauses != nil && to.Since != nil {
		if in, _, ok := a.timer.pausesBetween(&before[last], &path[i]); ok {
			paused := intervalOf(in)
			paused.Hi_cycles = max(min(paused.Hi_cycles, to.Since.Hi_cycles), paused.Lo_cycles)
			to.Paused = &paused
		}
	}
}

// latestMiddle returns the index of the event whose interval has the latest middle. It considers
// only events that may be the latest: those whose bits are set in the second parameter.
func (t *timer) latestMiddle(events []passage, may uint64) (best int) {
	best = bits.TrailingZeros64(may)
	for rest := may & (may - 1); rest != 0; rest &= rest - 1 {
		i := bits.TrailingZeros64(rest)
		a, b := events[best], events[i]
		d, err := t.durationBetween(int(a.source), int(b.source), a.reading, b.reading)
		if err == nil && d.Lo/2+d.Hi/2 >= 0 {
			best = i
		}
	}
	return best
}
