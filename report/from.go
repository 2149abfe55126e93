package report

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/cloudprofiler/cloudprofiler/analysis"
	"github.com/cloudprofiler/cloudprofiler/runs"
)

// These are the largest numbers of elements that a page shows. Data.Absent names what is left out.
const (
	maxSpans       = 120
	maxSplit       = 4 // if a span has more pairs of nodes, it is not shown pair by pair
	maxSlow        = 3 // slowest spans of a path
	maxThroughputs = 6 // the number of colours
	maxNodes       = 60
	maxComparisons = 60
	maxRemarks     = 60
	densityBins    = 60
)

// From converts an answer to the data of a page. The parameter run gives the times at which the run
// began and ended.
func From(a *analysis.Answer, run *runs.Directory, program string) *Data {
	d := &Data{Version: Version, Verdict: Consistent}
	d.Run = Run{Name: a.Run, Note: a.Note, Program: program, Begun: UTC(run.Run.Begun),
		Ended: UTC(run.Run.Ended)}
	d.Timeline = Timeline{Start: uint64(a.Bins.From_cycles),
		Bucket_cycles: int64(a.Bins.Width_cycles), Buckets: a.Bins.Count}
	f := &from{d, a}
	f.reference()
	f.nodes()
	f.actors()
	f.spans()
	f.paths()
	f.throughput()
	f.tuples()
	f.assumptions()
	f.findings()
	f.compareBounds()
	f.showTruth()
	for _, p := range d.Pairs {
		if p.Verdict == Suspect {
			d.Verdict = Suspect
		}
	}
	return d
}

type from struct {
	*Data
	a *analysis.Answer
}

func (f *from) absent(part, format string, args ...any) {
	f.Absent = append(f.Absent, Absent{part, fmt.Sprintf(format, args...)})
}

// roundInterval rounds an interval outward to ends that every reader of JSON represents exactly.
// Rounding changes only durations of a month and more, which a wild counter can cause.
func roundInterval(i analysis.Interval) Interval {
	return Interval{roundDown(i.Lo_cycles), roundUp(i.Hi_cycles)}
}

// roundPercentile makes a percentile of the page, and rounds it as roundInterval does.
func roundPercentile(percent float64, i analysis.Interval) Percentile {
	s := roundInterval(i)
	return Percentile{percent, s.Lo_cycles, s.Hi_cycles}
}

func count(n uint64) int64 { return int64(min(n, maxExact)) }

// parseVerdict parses a verdict. Any text but Consistent is Suspect.
func parseVerdict(text string) Verdict {
	if text == string(Consistent) {
		return Consistent
	}
	return Suspect
}

func (f *from) reference() {
	r := f.a.Reference
	f.Reference = Reference{
		Node: r.Node, Why: "as it was asked for", Seconds: r.SecondsMean(),
		Lo_hz: r.FrequencyLo_hz, Hi_hz: r.FrequencyHi_hz, Hz_source: r.Source,
	}
	if r.Chosen {
		f.Reference.Why = "chosen for its small bounds to the others"
	}
	if !(r.FrequencyLo_hz > 0) {
		f.absent(PartSeconds, "the run does not say how fast the counter of %s runs", r.Node)
	}
	for _, p := range f.a.Pairs {
		f.Reference.Wander_ppb = max(f.Reference.Wander_ppb, p.Declared_ppm*1000)
		f.Reference.Window_ns = int64(p.Window_s * 1e9)
	}
	if l := f.a.Length; l != nil {
		f.Reference.Length, f.Reference.Length_verdict = roundInterval(l.Interval),
			parseVerdict(l.Verdict)
		end := "the last tuple of " + l.To
		if l.Poison {
			end = "the first poison at " + l.To
		}
		f.Reference.Length_means = "from the first tuple of " + l.From + " to " + end
	}
}

func (f *from) nodes() {
	if n := len(f.a.Nodes); n > maxNodes {
		f.absent(PartNodes, "%d of %d nodes are not shown", n-maxNodes, n)
	}
	shown := f.a.Nodes[:min(len(f.a.Nodes), maxNodes)]
	for _, n := range shown {
		node := Node{Name: n.Name, Epoch: n.Epoch, Virtual: n.Virtual, Left: n.Left}
		node.Facts = append(node.Facts, Fact{"quantum", cycles(n.Quantum_cycles)},
			Fact{"core slack", cycles(n.CoreSlack_cycles)})
		for _, name := range slices.Sorted(maps.Keys(n.Facts)) {
			node.Facts = append(node.Facts, Fact{name, n.Facts[name]})
		}
		f.Nodes = append(f.Nodes, node)
	}
	if len(shown) < 2 {
		f.absent(PartNodes, "the run has one node: nothing crosses")
	}
	for i, x := range shown {
		for _, y := range shown[i+1:] {
			f.Pairs = append(f.Pairs, f.pair(x.Name, y.Name))
		}
	}
}

func cycles(n uint64) string {
	if n == 1 {
		return "1 cycle"
	}
	return fmt.Sprintf("%d cycles", n)
}

func (f *from) pair(x, y string) Pair {
	for _, p := range f.a.Pairs {
		if p.A != x && p.A != y || p.B != x && p.B != y {
			continue
		}
		pair := Pair{
			A: p.A, B: p.B, Verdict: parseVerdict(p.Verdict),
			Bound_cycles: count(p.Bound_cycles), Worst_cycles: count(p.Worst_cycles),
			Rate: p.Rate, Wander_ppb: p.Wander_ppm * 1000, Least_ppb: p.LeastWander_ppm * 1000,
		}
		if pair.Verdict == Suspect {
			pair.Reason = fmt.Sprintf("the data need a wander of at least %.4g ppm, but %.4g ppm "+
				"was declared: the bound is computed with %.4g ppm",
				p.LeastWander_ppm, p.Declared_ppm, p.Wander_ppm)
		}
		return pair
	}
	reason := "no relation of the two was kept"
	for _, m := range f.a.Missing {
		if m.Part == runs.RelationPath(x, y) || m.Part == runs.RelationPath(y, x) {
			reason = m.Reason
		}
	}
	return Pair{A: x, B: y, Reason: reason}
}

func (f *from) actors() {
	for _, p := range f.a.Points {
		i := slices.IndexFunc(f.Actors, func(a Actor) bool { return a.Name == p.Actor })
		if i < 0 {
			i = len(f.Actors)
			f.Actors = append(f.Actors, Actor{Name: p.Actor})
		}
		actor := &f.Actors[i]
		actor.Events += count(p.Events)
		for _, n := range p.Nodes {
			if !slices.Contains(actor.Nodes, n) {
				actor.Nodes = append(actor.Nodes, n)
			}
		}
		slices.Sort(actor.Nodes)
	}
	if len(f.Actors) == 0 {
		f.absent(PartGraph, "no event was found in the run's logs")
	}
}

// actorOf is the actor of a point. A point's name is actor/point.
func (f *from) actorOf(point string) string {
	for _, p := range f.a.Points {
		if p.Name == point {
			return p.Actor
		}
	}
	actor, _, _ := strings.Cut(point, "/")
	return actor
}

// pointOf is the name of a point within its actor.
func pointOf(point string) string {
	_, name, _ := strings.Cut(point, "/")
	return name
}

func (f *from) paths() {
	for _, r := range f.a.Paths {
		path := Path{Begins: f.actorsOf(r.From), Ends: f.actorsOf(r.To),
			Points: strings.Join(r.From, ", "), Tuples: count(r.Tuples),
			Made_of: slices.Clone(r.MadeOf), Of: r.Of(), Unsure: r.Unsure()}
		for _, ranked := range r.Spans[:min(len(r.Spans), maxSlow)] {
			l := &f.a.Spans[ranked.Span]
			s := f.spanOf(l)
			median, _ := l.All.Percentiles.At(50)
			slow := Slow{Name: s.Name, Points: s.Points, Means: s.Means,
				Median: roundInterval(median),
				Of:     l.Described(), Verdict: Consistent, Lacks: whyLacking(l, &l.All),
				Surely: ranked.Surely}
			if ranked.Share != nil {
				slow.Share = Share(*ranked.Share)
			}
			if l.All.Suspect > 0 {
				slow.Verdict = Suspect
			}
			path.Slowest = append(path.Slowest, slow)
		}
		f.Paths = append(f.Paths, path)
	}
}

// actorsOf lists the actors of points, each once.
func (f *from) actorsOf(points []string) []string {
	var actors []string
	for _, p := range points {
		if actor := f.actorOf(p); !slices.Contains(actors, actor) {
			actors = append(actors, actor)
		}
	}
	return actors
}

func (f *from) throughput() {
	if f.Timeline.Buckets == 0 {
		f.absent(PartThroughput, "the run has no events, so no time")
		return
	}
	// The points where tuples enter and leave the job are the most important, so they come first.
	points := slices.Clone(f.a.Points)
	slices.SortStableFunc(points, func(x, y analysis.Point) int {
		order := func(p analysis.Point) int {
			switch {
			case p.Source:
				return 0
			case p.Sink:
				return 1
			}
			return 2
		}
		return cmp.Compare(order(x), order(y))
	})
	var left int
	add := func(t Throughput) {
		if len(f.Throughput) < maxThroughputs {
			f.Throughput = append(f.Throughput, t)
		} else {
			left++
		}
	}
	for _, c := range f.a.Counters {
		add(Throughput{c.Channel + " on " + c.Node, "the counter of this channel, spread evenly " +
			"between its samples", f.spreadEvents(c.Periods), ""})
	}
	for _, p := range points {
		if !slices.ContainsFunc(p.PerBin, func(n uint64) bool { return n > 0 }) {
			continue // there are no times, as at a point that only has links
		}
		column := make(Column, f.Timeline.Buckets)
		for i := range column {
			if i < len(p.PerBin) {
				column[i] = count(p.PerBin[i])
			}
		}
		if n := len(column); n > 1 {
			column[n-1] = None // the run ends within this bucket
		}
		add(Throughput{p.Name, "events in the logs of " + strings.Join(p.Nodes, ", "), column,
			p.Completeness.Text()})
	}
	if left > 0 {
		f.absent(PartThroughput, "%d more places are not shown", left)
	}
	if len(f.Throughput) == 0 {
		f.absent(PartThroughput, "no channel of the run tells it")
	}
}

// spreadEvents takes the events that were counted from one sample to the next, and distributes them
// over the buckets between the two samples. The sum of all buckets is the number of events.
func (f *from) spreadEvents(periods []analysis.Period) Column {
	shares := make([]float64, f.Timeline.Buckets)
	seen := make([]bool, f.Timeline.Buckets)
	width := float64(f.Timeline.Bucket_cycles)
	for _, p := range periods {
		begin := float64(int64(uint64(p.From_cycles)-f.Timeline.Start)) / width
		length := max((float64(p.Length.Lo_cycles)/2+float64(p.Length.Hi_cycles)/2)/width, 1e-9)
		for i := max(0, int(begin)); i < len(shares) && float64(i) < begin+length; i++ {
			within := min(begin+length, float64(i+1)) - max(begin, float64(i))
			shares[i] += float64(p.Count) * within / length
			seen[i] = true
		}
	}
	column := make(Column, len(shares))
	var sum, told float64
	for i, s := range shares {
		column[i] = None
		if seen[i] {
			sum += s
			column[i] = int64(math.Round(sum - told))
			told += float64(column[i])
		}
	}
	return column
}

// kindWithin is the kind of a step between two points of one actor. It is Computation if the answer
// has a computation from one point to the other, else Inside.
func (f *from) kindWithin(before, after string) Kind {
	for _, l := range f.a.Spans {
		if l.From == before && l.To == after && l.Kind == "computation" {
			return Computation
		}
	}
	return Inside
}

// stepTo is the span by which a tuple arrived at a point. The last parameter counts the spans in
// each actor.
func (f *from) stepTo(w *analysis.TuplePath, p *analysis.Passed, arrival *analysis.Arrival,
	within map[string]int) Step {
	before := w.Passed[arrival.From]
	x, y := f.actorOf(before.Point), f.actorOf(p.Point)
	s := Step{Name: x + " → " + y, Kind: Transfer, From: before.Node, To: p.Node,
		Start: roundInterval(before.At), End: roundInterval(p.At), Verdict: Consistent}
	switch {
	case arrival.Slack != nil:
		s.Kind = Waiting
	case x == y:
		s.Kind, s.Name = f.kindWithin(before.Point, p.Point), x
		if within[x] > 1 {
			s.Name += ": " + pointOf(before.Point) + " → " + pointOf(p.Point)
		}
	}
	if parseVerdict(before.Verdict) == Suspect && arrival.From > 0 ||
		parseVerdict(p.Verdict) == Suspect {
		s.Verdict = Suspect
	}
	if arrival.Since == nil {
		s.Scenario, s.Undecided, s.Verdict = "the nodes are not related", true, Suspect
	} else {
		s.Duration = roundInterval(*arrival.Since)
		s.Undecided = arrival.Since.Lo_cycles <= 0 && arrival.Since.Hi_cycles >= 0
	}
	return s
}

var ordinals = []string{"slowest", "2nd slowest", "3rd slowest"}

func (f *from) tuples() {
	// The page prints the middle of each tuple's duration, so tuples are ordered by that.
	slowest := slices.Clone(f.a.Slowest)
	made := func(p analysis.TuplePath) bool { return p.Made }
	slices.SortStableFunc(slowest, func(x, y analysis.TuplePath) int {
		switch {
		case y.Made && !x.Made:
			return -1
		case x.Made && !y.Made:
			return 1
		}
		return cmp.Compare(y.Total.Lo_cycles/2+y.Total.Hi_cycles/2,
			x.Total.Lo_cycles/2+x.Total.Hi_cycles/2)
	})
	ordinary := slices.IndexFunc(slowest, made)
	for i, w := range slowest {
		of := ""
		if w.Made {
			i, of = i-ordinary, " of those made of others"
		}
		t := Tuple{ID: uint64(w.ID), Why: fmt.Sprintf("%dth slowest", i+1),
			Total: roundInterval(w.Total), Verdict: Consistent}
		if i < len(ordinals) {
			t.Why = ordinals[i]
		}
		t.Why += of
		within := map[string]int{} // how many steps an actor has
		for _, p := range w.Passed {
			for _, arrival := range p.After {
				if x := f.actorOf(p.Point); x == f.actorOf(w.Passed[arrival.From].Point) {
					within[x]++
				}
			}
		}
		var ends [][2]int // by step: the events at its ends
		for i, p := range w.Passed {
			if parseVerdict(p.Verdict) == Suspect {
				t.Verdict = Suspect
			}
			for _, arrival := range p.After {
				t.Steps = append(t.Steps, f.stepTo(&w, &p, &arrival, within))
				ends = append(ends, [2]int{arrival.From, i})
			}
		}
		t.addPauses(&w, ends)
		f.Tuples = append(f.Tuples, t)
	}
	if len(f.Tuples) == 0 {
		f.absent(PartTuples, "no tuple took the whole path, or none was asked for")
	}
}
