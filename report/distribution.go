package report

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/cloudprofiler/cloudprofiler/analysis"
)

func (f *from) spans() {
	var left, empty int
	for _, spans := range [][]analysis.Span{f.a.EndToEnd, f.a.Spans} {
		for _, l := range spans {
			if l.All.Count == 0 {
				empty++
				continue
			}
			parts := f.partRows(&l)
			if len(f.Spans)+len(parts) > maxSpans {
				left += len(parts)
				continue
			}
			f.Spans = append(f.Spans, parts...)
		}
	}
	for _, s := range f.Spans {
		if s.Suspect > 0 {
			f.Verdict = Suspect
		}
	}
	if left > 0 {
		f.absent(PartSegments, "%d more spans are not shown: cprof analyze --csv prints all", left)
	}
	if empty > 0 {
		f.absent(PartSegments, "%d spans have no duration that could be computed", empty)
	}
	if len(f.Spans) == 0 {
		f.absent(PartSegments, "no tuple was seen at two places")
		f.absent(PartLatency, "no tuple was seen at two places")
	}
}

// spanOf returns a span's name and kind.
func (f *from) spanOf(l *analysis.Span) Span {
	x := Span{Kind: Transfer, From: f.actorOf(l.From), To: f.actorOf(l.To),
		Points: l.From + " → " + l.To}
	switch l.Kind {
	case "end-to-end":
		x.Kind, x.Name = EndToEnd, "end to end"
		if len(f.a.EndToEnd) > 1 {
			x.Name = x.Points
		}
	case "computation":
		x.Kind, x.Name = Computation, x.From
	case "inside":
		x.Kind, x.Name = Inside, x.Points
		if l.Lateness() {
			x.Means = "due, not yet begun: the load's own lateness"
		}
	case "waiting":
		x.Kind, x.Name = Waiting, x.From+" → "+x.To
		x.Means = "waited at " + x.To + " for another branch"
	case "gap":
		x.Kind, x.Name = Gap, x.Points
		x.Means = "past " + strings.Join(l.Past, ", ") + ", whose logs do not have every tuple"
	default:
		x.Name = x.From + " → " + x.To
	}
	// If two spans of one kind are between the same actors, their points distinguish them.
	if x.Kind != EndToEnd && slices.ContainsFunc(f.a.Spans, func(o analysis.Span) bool {
		return f.actorOf(o.From) == x.From && f.actorOf(o.To) == x.To && o.Kind == l.Kind &&
			(o.From != l.From || o.To != l.To)
	}) {
		x.Name = x.Points
	}
	if l.Origin != "" {
		x.Name += ", " + l.Origin + " origin"
	}
	return x
}

// partRows returns the rows that show a span: one row for each pair of nodes. If there are many
// pairs, there is one row for durations within nodes and one for durations between nodes.
func (f *from) partRows(l *analysis.Span) []Span {
	x := f.spanOf(l)
	var parts []Span
	add := func(place Place, nodes []string, d *analysis.Durations) {
		if d != nil && d.Count > 0 {
			s := x
			s.Place, s.Nodes, s.Lacks = place, nodes, whyLacking(l, d)
			parts = append(parts, f.filled(s, d))
		}
	}
	if len(l.Pairs) <= maxSplit {
		for i, p := range l.Pairs {
			place, nodes := Remote, []string{p.From, p.To}
			if p.From == p.To {
				place, nodes = Local, []string{p.From}
			}
			add(place, nodes, &l.Pairs[i].Durations)
		}
	} else {
		many := func(local bool) []string {
			var nodes [2][]string
			for _, p := range l.Pairs {
				if (p.From == p.To) == local {
					nodes[0], nodes[1] = append(nodes[0], p.From), append(nodes[1], p.To)
				}
			}
			for i := range nodes {
				slices.Sort(nodes[i])
				nodes[i] = []string{strings.Join(slices.Compact(nodes[i]), ", ")}
			}
			if local {
				return nodes[0]
			}
			return []string{nodes[0][0], nodes[1][0]}
		}
		if l.Local != nil {
			add(Local, many(true), l.Local)
		}
		if l.Remote != nil {
			add(Remote, many(false), l.Remote)
		}
	}
	slices.SortStableFunc(parts, func(a, b Span) int { return int(b.Count - a.Count) })
	first := len(f.Spans)
	for i := range parts {
		parts[i].ID = spanID(first + i)
		if i > 0 {
			parts[i].Over_same = parts[0].ID
		}
	}
	if len(parts) > 0 {
		parts[0].Over = f.over(l.OverTime)
		if l.Pauses != nil {
			parts[0].Pauses = l.Pauses.Text()
		}
	}
	return parts
}

// whyLacking says why durations of a span are not those of all tuples. It is empty if they are.
func whyLacking(l *analysis.Span, d *analysis.Durations) string {
	var words []string
	if text := l.Completeness.Text(); text != "" {
		words = append(words, text)
	}
	if d.Withheld > 0 {
		words = append(words, fmt.Sprintf("%d withheld", d.Withheld))
	}
	if d.Unplaced > 0 {
		words = append(words, fmt.Sprintf("%d not related", d.Unplaced))
	}
	return strings.Join(words, "; ")
}

func spanID(i int) string { return "s" + strconv.Itoa(i) }

func (f *from) filled(s Span, d *analysis.Durations) Span {
	s.Count, s.Suspect, s.Mean = count(d.Count), count(d.Suspect), roundInterval(d.Mean)
	s.Verdict = Consistent
	if d.Suspect > 0 {
		s.Verdict = Suspect
	}
	s.Percentiles = append(s.Percentiles, roundPercentile(0, d.Min))
	for _, p := range d.Percentiles {
		s.Percentiles = append(s.Percentiles, roundPercentile(p.Percent, p.Interval))
	}
	s.Percentiles = append(s.Percentiles, roundPercentile(100, d.Max))
	for _, b := range d.Bounds {
		s.Bounds = append(s.Bounds,
			Bound{b.Percent, roundUp(int64(min(b.Bound_cycles, math.MaxInt64)))})
	}
	if n := len(d.Widths); n > 0 {
		s.Bounds = append(s.Bounds, Bound{100, roundUp(d.Widths[n-1].Hi_cycles)})
	}
	for _, name := range slices.Sorted(maps.Keys(d.Scenarios)) {
		s.Scenarios = append(s.Scenarios, ScenarioCount{name, count(d.Scenarios[name])})
	}
	s.Density = densityOf(d.Lows, d.Highs)
	s.BoundDensity = densityOf(d.Widths)
	setWhiskers(&s, d)
	return s
}

// setWhiskers sets the outermost durations within 1.5 interquartile ranges of the box, which
// reaches from percentile 25 to 75. The whiskers may be wrong by the width of a bin.
func setWhiskers(s *Span, d *analysis.Durations) {
	s.Whiskers = [2]Interval{roundInterval(d.Min), roundInterval(d.Max)}
	q := func(percent float64) float64 {
		p, ok := d.Percentiles.At(percent)
		if !ok {
			return math.NaN()
		}
		return float64(p.Lo_cycles)/2 + float64(p.Hi_cycles)/2
	}
	q1, q3 := q(25), q(75)
	if math.IsNaN(q1) || math.IsNaN(q3) {
		return
	}
	low, high := q1-1.5*(q3-q1), q3+1.5*(q3-q1)
	below := func(bins []analysis.Bin) (n uint64, lo, hi int64, ok bool) {
		for _, b := range bins {
			if float64(b.Hi_cycles) >= low {
				return n, b.Lo_cycles, b.Hi_cycles, true
			}
			n += b.Count
		}
		return n, 0, 0, false
	}
	above := func(bins []analysis.Bin) (n uint64, lo, hi int64, ok bool) {
		for _, b := range slices.Backward(bins) {
			if float64(b.Lo_cycles) <= high {
				return n, b.Lo_cycles, b.Hi_cycles, true
			}
			n += b.Count
		}
		return n, 0, 0, false
	}
	nl, lo, _, ok1 := below(d.Lows)
	nh, _, hi, ok2 := below(d.Highs)
	if ok1 && ok2 {
		s.Whiskers[0] = roundInterval(analysis.Interval{Lo_cycles: max(lo, d.Min.Lo_cycles),
			Hi_cycles: max(hi, lo, d.Min.Hi_cycles)})
	}
	s.Outliers = count((nl + nh) / 2)
	nl, lo, _, ok1 = above(d.Lows)
	nh, _, hi, ok2 = above(d.Highs)
	if ok1 && ok2 {
		lo = min(lo, d.Max.Lo_cycles)
		s.Whiskers[1] = roundInterval(analysis.Interval{Lo_cycles: lo,
			Hi_cycles: max(min(hi, d.Max.Hi_cycles), lo)})
	}
	s.Outliers += count((nl + nh) / 2)
}

// densityOf turns lists of bins into one list of bins that are equally wide on a logarithmic axis.
// Each value counts equally, whichever list it comes from. If one list has the low ends of
// intervals and another has the high ends, the result roughly shows how the middles of the
// intervals are distributed.
func densityOf(lists ...[]analysis.Bin) Density {
	first, last := math.Inf(1), 1.0
	var total float64
	for _, bins := range lists {
		for _, b := range bins {
			first = min(first, max(1, float64(b.Lo_cycles)))
			last = max(last, float64(b.Hi_cycles)+1)
			total += float64(b.Count)
		}
	}
	if total == 0 {
		return Density{}
	}
	last = max(last, first*1.01)
	d := Density{first, last, make([]float64, densityBins)}
	place := func(cycles float64) float64 {
		return math.Log(max(cycles, first)/first) / math.Log(last/first) * densityBins
	}
	for _, bins := range lists {
		for _, b := range bins {
			share := float64(b.Count) / total
			from, to := place(float64(b.Lo_cycles)), place(float64(b.Hi_cycles)+1)
			if to-from < 1e-9 { // below one cycle
				d.Shares[min(int(from), densityBins-1)] += share
				continue
			}
			for i := int(from); i < densityBins && float64(i) < to; i++ {
				d.Shares[i] += share * (min(to, float64(i+1)) - max(from, float64(i))) / (to - from)
			}
		}
	}
	for i, s := range d.Shares { // more digits would show nothing
		d.Shares[i] = math.Round(s*1e6) / 1e6
	}
	return d
}

func (f *from) over(bins []analysis.BinDurations) []Over {
	if len(bins) == 0 || f.Timeline.Buckets == 0 {
		return nil
	}
	over := []Over{{P: 50}, {P: 99}}
	for i := range over {
		over[i].Lo_cycles, over[i].Hi_cycles = emptyColumn(f.Timeline.Buckets),
			emptyColumn(f.Timeline.Buckets)
	}
	for _, b := range bins {
		if b.Bin < 0 || b.Bin >= f.Timeline.Buckets || b.Count == 0 {
			continue
		}
		for i, p := range []Interval{roundInterval(b.P50), roundInterval(b.P99)} {
			over[i].Lo_cycles[b.Bin], over[i].Hi_cycles[b.Bin] = p.Lo_cycles, p.Hi_cycles
		}
	}
	return over
}

// emptyColumn is a column without any value.
func emptyColumn(n int) Column { return slices.Repeat(Column{None}, n) }
