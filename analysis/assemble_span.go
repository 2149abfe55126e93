package analysis

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"

	"github.com/cloudprofiler/cloudprofiler/tscratio"
)

func (a *assembler) spans(out *Answer) {
	keys := make([]spanKey, 0, len(a.found.spans))
	for k, l := range a.found.spans {
		if l.missed > 0 ||
			slices.ContainsFunc(l.parts, func(p *spanPart) bool { return p != nil }) {
			keys = append(keys, k)
		}
	}
	slices.SortFunc(keys, func(x, y spanKey) int {
		// If a tuple was made of other tuples, some of its spans begin where one of those other
		// tuples began. Such spans come last.
		return cmp.Or(cmp.Compare(max(x.kind, wholePath), max(y.kind, wholePath)),
			cmp.Compare(x.from, y.from), cmp.Compare(x.to, y.to), cmp.Compare(x.kind, y.kind))
	})
	var unplaced worstSpan
	var withheld [withheldReasons]worstSpan
	for _, k := range keys {
		if a.found.spans[k].countedBefore {
			continue
		}
		span := a.span(a.found.spans[k])
		if span.All.After > 0 {
			why := ""
			if a.graph.againstData[k.from]>>k.to&1 != 0 {
				why = fmt.Sprintf(": this contradicts the declared edge from %s to %s, which may "+
					"be wrong", span.From, span.To)
			}
			a.in.addFinding(FindImpossible,
				"%d of %d tuples were surely at %s before they were at %s%s",
				span.All.After, span.All.Count, span.To, span.From, why)
		}
		unplaced.add(span.All.Unplaced, &span)
		for why, n := range withheldBy(a.found.spans[k]) {
			if span.Origin == "" {
				withheld[why].add(n, &span)
			}
		}
		if k.kind < wholePath {
			out.Spans = append(out.Spans, span)
			a.between = append(a.between, a.found.spans[k])
		} else {
			out.EndToEnd = append(out.EndToEnd, span)
		}
	}
	doubtJoins(out.Spans)
	if unplaced.spans > 0 {
		a.in.addFinding(FindUndecided,
			"%s could not be computed: their nodes are not related at that "+
				"time", unplaced.text())
	}
	for why := range withheld {
		if w := &withheld[why]; w.spans > 0 {
			a.in.addFinding(FindUndecided, "%s are withheld: %s", w.text(), withheldWords[why])
		}
	}
	a.findWithheld(out)
}

// doubtJoins marks spans that end where branches meet, if durations of another branch are withheld
// there. For some tuples, it is then not known which branch came last, and thus which branches
// waited.
func doubtJoins(spans []Span) {
	joins, withheld := map[string]bool{}, map[string]uint64{}
	for i := range spans {
		joins[spans[i].To] = joins[spans[i].To] || spans[i].Kind == "waiting"
		withheld[spans[i].To] += spans[i].All.Withheld
	}
	for i := range spans {
		s := &spans[i]
		if n := withheld[s.To] - s.All.Withheld; joins[s.To] && n > 0 {
			s.Completeness = s.Completeness.combineWith(Completeness{Unknown, []string{fmt.Sprintf(
				"which branch came last at %s is not known for some tuples", s.To)}})
		}
	}
}

// withheldBy counts the durations of a span that are withheld, by reason.
func withheldBy(l *span) (all [withheldReasons]uint64) {
	all[beganAgain] = l.missed
	for _, part := range l.parts {
		for why := 0; part != nil && why < len(all); why++ {
			all[why] += part.withheld[why]
		}
	}
	return all
}

// worstSpan finds the span that lacks the most durations. It also counts the spans that lack any.
type worstSpan struct {
	spans, most uint64
	lackingSpan string // the span that lacks the most durations
}

func (w *worstSpan) add(n uint64, s *Span) {
	if n > 0 {
		w.spans++
	}
	if n > w.most {
		w.most, w.lackingSpan = n, s.From+" to "+s.To
	}
}

func (w *worstSpan) text() string {
	if w.spans == 1 {
		return fmt.Sprintf("%d durations from %s", w.most, w.lackingSpan)
	}
	return fmt.Sprintf("durations of %d spans, such as %d from %s,", w.spans, w.most, w.lackingSpan)
}

// findWithheld adds findings about tuples that were made of other tuples. It counts the withheld
// durations from the earliest of these other tuples to the end, and says why they are withheld.
func (a *assembler) findWithheld(out *Answer) {
	withheld, all := map[string]uint64{}, map[string]uint64{}
	for i := range out.EndToEnd {
		if s := &out.EndToEnd[i]; s.Origin == "earliest" {
			withheld[s.To] += s.All.Withheld
			all[s.To] += s.All.Withheld + s.All.Count + s.All.Unplaced
		}
	}
	why := Completeness{Kept: All}
	for rank := range a.graph.order {
		why = why.combineWith(a.completeness(rank, ""))
	}
	for i := range a.told {
		if s := &a.in.sources[i]; s.keepsLinks() {
			why = why.combineWith(a.told[i].keptEvents(s))
		}
	}
	reason := why.Because()
	if len(why.Why) == 0 {
		reason = "they begin past the points where tuples begin, or several tuples share an id"
	}
	for _, to := range slices.Sorted(maps.Keys(withheld)) {
		if withheld[to] > 0 {
			a.in.addFinding(FindUndecided,
				"how long %d of %d tuples took to %s is withheld: not all "+
					"tuples that they were made of are in the logs: %s", withheld[to], all[to], to,
				reason)
		}
	}
}

func (a *assembler) span(l *span) Span {
	in := a.in
	out := Span{
		From: l.from(in, a.graph), To: l.to(in, a.graph), Kind: l.kindWords(in, a.graph),
		Pairs: []NodePair{}, OverTime: []BinDurations{}, Open: l.mayBeIndirect,
	}
	if out.Kind == "gap" {
		out.Past = a.unseenBetween(l.key.from, l.key.to)
	}
	out.Completeness, out.Pauses = a.ofSpan(l.key), a.pausesOfSpan(l)
	switch l.key.kind {
	case fromEarliest:
		out.Origin = "earliest"
	case fromLatest:
		out.Origin = "latest"
	}
	if whole := a.found.spans[spanKey{l.key.from, l.key.to, wholePath}]; l.key.kind == directSpan &&
		whole != nil && whole.countedBefore {
		for _, part := range whole.parts {
			if part != nil {
				out.Whole += part.n
			}
		}
	}
	all, local, remote := newSpanPart(in.options.exactValues), newSpanPart(in.options.exactValues),
		newSpanPart(in.options.exactValues)
	for i, part := range l.parts {
		if part == nil {
			continue
		}
		from, to := i/len(in.nodes), i%len(in.nodes)
		out.Pairs = append(out.Pairs, NodePair{
			in.nodes[from].Name, in.nodes[to].Name, durations(part),
		})
		all.merge(part)
		if from == to {
			local.merge(part)
		} else {
			remote.merge(part)
		}
	}
	all.withheld[beganAgain] += l.missed
	out.All = durations(all)
	out.All.Chance = all.chances(all.unplaced + all.withheldAll())
	for _, group := range []struct {
		part *spanPart
		into **Durations
	}{{local, &out.Local}, {remote, &out.Remote}} {
		if group.part.n+group.part.unplaced+group.part.withheldAll() > 0 {
			d := durations(group.part)
			*group.into = &d
		}
	}
	for i, b := range l.bins {
		if b != nil {
			out.OverTime = append(out.OverTime, BinDurations{
				i, b.n, intervalOf(b.percentile(50_000)), intervalOf(b.percentile(99_000)),
			})
		}
	}
	return out
}

func durations(p *spanPart) Durations {
	d := Durations{
		Count: p.n, Percentiles: Percentiles{}, Bounds: []BoundPercentile{},
		Scenarios: map[string]uint64{}, Lows: []Bin{}, Highs: []Bin{}, Widths: []Bin{},
		Suspect: p.suspect, Unplaced: p.unplaced, Withheld: p.withheldAll(),
		After: p.orders[0], Undecided: p.orders[1],
		Before: p.orders[2], Held: p.held.heldForAnswer(),
	}
	for s, n := range p.scenarios {
		if n > 0 {
			d.Scenarios[tscratio.Scenario(s).String()] = n
		}
	}
	if p.n == 0 {
		return d
	}
	for i, s := range p.percentiles(percents_milli) {
		d.Percentiles = append(d.Percentiles, Percentile{
			float64(percents_milli[i]) / 1000, intervalOf(s),
		})
	}
	for i, b := range p.boundPercentiles(percents_milli) {
		d.Bounds = append(d.Bounds, BoundPercentile{float64(percents_milli[i]) / 1000, b})
	}
	d.Mean = Interval{p.sums.lo.divideDown(p.n), p.sums.hi.divideUp(p.n)}
	d.Min, d.Max = intervalOf(p.least), intervalOf(p.largest)
	d.Lows, d.Highs, d.Widths = p.coarsePlots()
	return d
}

// coarsePlots returns the ends and the half-widths in coarse bins.
func (d *distribution) coarsePlots() (lows, highs, widths []Bin) {
	if d.lo != nil {
		return coarseBins(d.lo), coarseBins(d.hi), coarseBins(d.bound)
	}
	var lo, hi, bound bucketCounts
	for _, s := range d.exact {
		lo.add(s.Lo)
		hi.add(s.Hi)
		bound.add(int64(min(halfWidth(s), math.MaxInt64)))
	}
	return coarseBins(&lo), coarseBins(&hi), coarseBins(&bound)
}

func coarseBins(c *bucketCounts) []Bin {
	bins := []Bin{}
	c.eachBucket(func(lo, hi int64, n uint64) bool {
		var from, to int64
		if lo >= 0 {
			from, to = coarseEdges(coarseBucket(lo))
		} else {
			b, t := coarseEdges(coarseBucket(^hi))
			from, to = ^t, ^b
		}
		if k := len(bins) - 1; k >= 0 && bins[k].Lo_cycles == from {
			bins[k].Count += n
			return true
		}
		bins = append(bins, Bin{from, to, n})
		return true
	})
	return bins
}

// runLength is the time from the first tuple to the end, over all channels that log their first and
// last tuple. Any of these channels may have been first, and any may have been last. So runLength
// computes the interval of the duration from each channel's first tuple to each channel's end. The
// true length is the longest of these durations. So the result goes from the largest low end to the
// largest high end.
func (a *assembler) runLength() *RunLength {
	var out *RunLength
	poison := slices.ContainsFunc(a.told, func(t told) bool { return t.firstLast.Poison != 0 })
	var worst tscratio.Verdict
	for i := range a.told {
		if a.told[i].firstLast.Count == 0 {
			continue
		}
		for j := range a.told {
			end := a.told[j].firstLast.Poison
			if !poison && a.told[j].firstLast.Count > 0 {
				end = a.told[j].firstLast.LastCounter
			}
			if end == 0 {
				continue
			}
			d, err := a.timer.durationBetween(i, j, a.told[i].firstLast.FirstCounter, end)
			if err != nil {
				continue
			}
			worst = max(worst, d.Verdict)
			if out == nil {
				out = &RunLength{Interval: intervalOf(d.Elapsed), Poison: poison}
			}
			if d.Lo >= out.Lo_cycles {
				from, to := &a.in.sources[i], &a.in.sources[j]
				out.From, out.To = from.name+" on "+a.in.nodes[from.node].Name,
					to.name+" on "+a.in.nodes[to.node].Name
			}
			out.Lo_cycles, out.Hi_cycles = max(out.Lo_cycles, d.Lo), max(out.Hi_cycles, d.Hi)
		}
	}
	if out == nil {
		return nil
	}
	out.Verdict = worst.String()
	// The job ends at the channels that no other first-last channel follows.
	last := -1
	for i := range a.told {
		if a.told[i].firstLast.Count > 0 {
			last = max(last, a.graph.rankOf(&a.in.sources[i]))
		}
	}
	for i := range a.told {
		if a.graph.rankOf(&a.in.sources[i]) == last {
			out.Tuples += a.told[i].firstLast.Count
		}
	}
	return out
}
