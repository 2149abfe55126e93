package report

import (
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"sync"
)

// A sample is an invented run of a small stream job on three nodes, drawn from a seed. It has
// everything that a page can show. This file draws the sample's durations and sums them up as
// package analysis would.
type sample struct {
	random *rand.Rand
	data   *Data
}

const (
	sample_hz     = 2.596e9
	sampleSeconds = 90
	sampleBuckets = 180
	sampleDraws   = 18000      // durations that are drawn for a span
	sampleTuples  = 10_412_667 // the number of tuples that the sample claims
)

// sampleSeed is the seed of the golden sample, of docs/report.md and of the tests in a browser.
const sampleSeed = 7

// drawnSample returns, as JSON, the sample that nearly every test uses. Drawing the sample takes
// longer than decoding it.
var drawnSample = sync.OnceValue(func() []byte {
	text, err := json.Marshal(drawSample(sampleSeed))
	if err != nil {
		panic(err)
	}
	return text
})

// sampleData returns the sample of a seed. Each call returns a new copy.
func sampleData(seed uint64) *Data {
	if seed != sampleSeed {
		return drawSample(seed)
	}
	d := new(Data)
	if err := json.Unmarshal(drawnSample(), d); err != nil {
		panic(err)
	}
	return d
}

func drawSample(seed uint64) *Data {
	s := &sample{rand.New(rand.NewPCG(seed, 0)), &Data{Version: Version, Verdict: Suspect}}
	d := s.data
	d.Run = Run{Name: "tuesday-rate-110k", Note: "110 thousand tuples a second, window " +
		"on two nodes",
		Begun:   UTC{1795186800_000_120_000, 1795186800_004_120_000},
		Ended:   UTC{1795186890_655_882_000, 1795186890_659_882_000},
		Program: "cprof sample"}
	length := int64(sampleSeconds * sample_hz)
	d.Reference = Reference{Node: "edge", Why: "smallest median bound to the other nodes",
		Lo_hz: sample_hz - 2600, Hi_hz: sample_hz + 2600,
		Hz_source: "CLOCK_MONOTONIC_RAW over the run",
		Seconds: "seconds are cycles divided by 2.5960000 GHz ± 2.6 kHz, measured against " +
			"CLOCK_MONOTONIC_RAW over the run; their bounds include its error",
		Wander_ppb: 1000, Window_ns: 10e9,
		Length: Interval{length - 1650, length + 1650},
		Length_means: "from the first record of the " +
			"sources to the first poison pill at the sinks"}
	d.Timeline = Timeline{Start: 18446744073009551615 - 1<<40,
		Bucket_cycles: length / sampleBuckets, Buckets: sampleBuckets}
	d.Totals = Totals{Events: sampleTuples*7 + 31, Tuples: sampleTuples,
		Complete: sampleTuples - 2316, Channels: 14}
	d.Actors = []Actor{
		{"source", []string{"edge"}, sampleTuples}, {"parse", []string{"edge"}, sampleTuples * 2},
		{"enrich", []string{"core-1"}, sampleTuples * 2},
		{"audit", []string{"core-1"}, sampleTuples / 50},
		{"window", []string{"core-1", "core-2"}, sampleTuples * 2},
		{"sink", []string{"edge"}, sampleTuples - 2316}}
	cycles := func(us float64) float64 { return us * sample_hz / 1e6 }
	for _, w := range []struct {
		kind              Kind
		place             Place
		from, to          string
		nodes             []string
		us, spread, bound float64 // median, sigma of its logarithm, median half-width
		share             float64
		verdict           Verdict
	}{
		{Computation, Local, "parse", "parse", []string{"edge"}, 2.1, .35, .05, 1, Consistent},
		{Computation, Local, "enrich", "enrich", []string{"core-1"}, 8.4, .5, .098, 1, Consistent},
		{Computation, Local, "window", "window", []string{"core-1"}, 4.7, .8, .098, .48,
			Consistent},
		{Computation, Local, "window", "window", []string{"core-2"}, 5.2, .8, .11, .52, Suspect},
		{Transfer, Local, "source", "parse", []string{"edge"}, 11, .6, .05, 1, Consistent},
		{Transfer, Remote, "parse", "enrich", []string{"edge", "core-1"}, 40, .45, .63, 1,
			Consistent},
		{Transfer, Local, "enrich", "audit", []string{"core-1"}, 9, .4, .1, .02, Consistent},
		{Transfer, Local, "enrich", "window", []string{"core-1"}, 14, .7, .098, .48, Consistent},
		{Transfer, Remote, "enrich", "window", []string{"core-1", "core-2"}, 52, .55, 2.4, .52,
			Suspect},
		{Transfer, Remote, "window", "sink", []string{"core-1", "edge"}, 38, .5, .66, .48,
			Consistent},
		{Transfer, Remote, "window", "sink", []string{"core-2", "edge"}, 43, .5, 1.9, .52, Suspect},
		{EndToEnd, Local, "source", "sink", []string{"edge"}, 178, .33, .05, 1, Consistent},
		{Inside, Local, "source", "source", []string{"edge"}, 1.3, .9, .05, 1, Consistent},
	} {
		s.span(w.kind, w.place, w.from, w.to, w.nodes, cycles(w.us), w.spread, cycles(w.bound),
			w.share, w.verdict)
	}
	for i := range d.Spans {
		if x := &d.Spans[i]; x.Kind == EndToEnd {
			x.Pauses = "of the time of the slowest 104127 tuples, 24 to 25 % lay in pauses of " +
				"JVMs, most of it in those of jvm-2231 on core-1; of the time of all 10412667, " +
				"at most 1 %"
		}
	}
	slow := func(i int, us, bound float64) Slow {
		x := &d.Spans[i]
		return Slow{Name: x.Name, Points: x.Points,
			Median:  Interval{int64(cycles(us - bound)), int64(cycles(us + bound))},
			Verdict: x.Verdict}
	}
	d.Paths = []Path{{Begins: []string{"source"}, Ends: []string{"audit", "sink"},
		Points: "source/intended", Tuples: sampleTuples,
		Of:      fmt.Sprintf("%d tuples", sampleTuples),
		Slowest: []Slow{slow(5, 42.46, .66), slow(10, 42.1, 1.4), slow(8, 33.2, 1.8)}}}
	s.throughput()
	s.comparisons(cycles)
	s.addTruth()
	s.tuples(cycles)
	s.nodes()
	d.AddMessages(capturedSample())
	d.AddRequests(requestSample(40))
	d.Undecided = []string{
		"Whether 1,204 pairs of tuples overtook each other between core-1 and core-2: their " +
			"arrivals lie within each other's bounds.",
		"Where between the network and the receiving operator's queue a transfer waited: no " +
			"channel stands between them.",
		"Whether the wander of a pair was below what was assumed: data can refute an assumption " +
			"and never confirm it."}
	d.Remarks = []Remark{
		{Note, "the relation of core-1 and core-2 is suspect: its data need a wander of at " +
			"least 1.56 ppm, but 1 ppm was declared"},
		{Note, "the relation of edge and core-2 is suspect: its data need a wander of at least " +
			"1.56 ppm, but 1 ppm was declared"}}
	d.Missing = []Missing{{"logs/core-2/audit.cplog",
		"the last block is torn: 41 records were salvaged"}}
	d.Absent = []Absent{{PartFacts, "node core-2 left before it was asked for its facts: " +
		"connection lost"}}
	return d
}

func (s *sample) span(kind Kind, place Place, from, to string, nodes []string, median, spread,
	bound, share float64, verdict Verdict) {
	type draw struct {
		bucket int
		lo, hi int64
	}
	draws := make([]draw, sampleDraws)
	for i := range draws {
		at := i * sampleBuckets / sampleDraws
		busy := 1.0
		if at > 110 && at < 128 { // a burst: all tuples wait
			busy = 1 + 3*math.Sin(math.Pi*float64(at-110)/18)
		}
		middle := median * busy * math.Exp(spread*s.random.NormFloat64())
		if s.random.IntN(400) == 0 {
			middle *= 6
		}
		half := bound * math.Exp(.16*s.random.NormFloat64()) * (1 + .3*math.Sin(float64(at)/17))
		draws[i] = draw{at, int64(middle - half), int64(math.Ceil(middle + half))}
	}
	column := func(of func(draw) int64, keep func(draw) bool) []int64 {
		var all []int64
		for _, d := range draws {
			if keep == nil || keep(d) {
				all = append(all, of(d))
			}
		}
		slices.Sort(all)
		return all
	}
	lo, hi := func(d draw) int64 { return d.lo }, func(d draw) int64 { return d.hi }
	half := func(d draw) int64 { return (d.hi - d.lo + 1) / 2 }
	middle := func(d draw) int64 { return (d.lo + d.hi) / 2 }
	los, his, halves, middles := column(lo, nil), column(hi, nil), column(half, nil),
		column(middle, nil)
	x := Span{ID: fmt.Sprintf("s%d", len(s.data.Spans)), Kind: kind, Place: place,
		From: from, To: to, Nodes: nodes,
		Verdict: verdict, Count: int64(share * sampleTuples),
		Suspect: map[Verdict]int64{Suspect: int64(share * sampleTuples)}[verdict],
		Density: density(middles, 60), BoundDensity: density(halves, 30)}
	x.Name = from + " → " + to
	switch {
	case kind == Computation:
		x.Name = from
	case kind == EndToEnd:
		x.Name = "end to end"
	}
	x.Points = from + "/send → " + to + "/recv"
	if kind == Inside {
		x.Points = from + "/intended → " + to + "/send"
		x.Name, x.Means = x.Points, "due, not yet begun: the load's own lateness"
	}
	scenario := map[bool]string{true: "on the reference node",
		false: "on another node"}[nodes[0] == "edge"]
	if place == Remote {
		scenario = "between two nodes"
	}
	x.Scenarios = []ScenarioCount{{scenario, x.Count}}
	for _, p := range []float64{0, 1, 5, 25, 50, 75, 90, 95, 99, 99.9, 99.99, 99.999, 100} {
		x.Percentiles = append(x.Percentiles, Percentile{p, rank(los, p), rank(his, p)})
		x.Bounds = append(x.Bounds, Bound{p, rank(halves, p)})
	}
	x.Mean = Interval{mean(los), mean(his) + 1}
	fence := 1.5 * float64(rank(middles, 75)-rank(middles, 25))
	low, high := float64(rank(middles, 25))-fence, float64(rank(middles, 75))+fence
	inside := func(d draw) bool { return float64(middle(d)) >= low && float64(middle(d)) <= high }
	in := [2][]int64{column(lo, inside), column(hi, inside)}
	x.Whiskers = [2]Interval{{in[0][0], in[1][0]}, {in[0][len(in[0])-1], in[1][len(in[1])-1]}}
	x.Outliers = int64(float64(sampleDraws-len(in[0])) / sampleDraws * float64(x.Count))
	x.Over = []Over{{P: 50}, {P: 99}, {P: 100}}
	for b := range sampleBuckets {
		const each = sampleDraws / sampleBuckets
		this := draws[b*each : (b+1)*each]
		los, his := make([]int64, each), make([]int64, each)
		for i, d := range this {
			los[i], his[i] = d.lo, d.hi
		}
		slices.Sort(los)
		slices.Sort(his)
		for i := range x.Over {
			x.Over[i].Lo_cycles = append(x.Over[i].Lo_cycles, rank(los, x.Over[i].P))
			x.Over[i].Hi_cycles = append(x.Over[i].Hi_cycles, rank(his, x.Over[i].P))
		}
	}
	s.data.Spans = append(s.data.Spans, x)
}

func density(sorted []int64, bins int) Density {
	first, last := math.Max(1, float64(sorted[0])), math.Max(2, float64(sorted[len(sorted)-1]))
	d := Density{math.Floor(first), math.Ceil(last), make([]float64, bins)}
	for _, v := range sorted {
		at := math.Log(math.Max(1, float64(v))/d.From_cycles) / math.Log(d.To_cycles/d.From_cycles)
		d.Shares[min(max(int(at*float64(bins)), 0), bins-1)] += 1 / float64(len(sorted))
	}
	for i := range d.Shares {
		d.Shares[i] = math.Round(d.Shares[i]*1e5) / 1e5
	}
	return d
}

func rank(sorted []int64, p float64) int64 {
	if len(sorted) == 0 {
		return None
	}
	return sorted[min(max(int(math.Ceil(p/100*float64(len(sorted))))-1, 0), len(sorted)-1)]
}

func mean(v []int64) int64 {
	var sum float64
	for _, x := range v {
		sum += float64(x)
	}
	return int64(sum / float64(len(v)))
}

func (s *sample) throughput() {
	for _, t := range []struct {
		name, source string
		share        float64
	}{{"source", "events of source/out", 1}, {"window", "periodic counter window/count", .97},
		{"sink", "events of sink/in", .96}} {
		x := Throughput{Name: t.name, Source: t.source}
		for b := range sampleBuckets {
			rate := t.share * sampleTuples / sampleBuckets * (1 + .015*s.random.NormFloat64())
			switch {
			case b > 110 && b < 120 && t.name != "source":
				rate *= .55
			case b >= 120 && b < 128 && t.name != "source":
				rate *= 1.5
			}
			x.Count = append(x.Count, int64(rate))
		}
		s.data.Throughput = append(s.data.Throughput, x)
	}
}

// addTruth adds an invented comparison with the truth. A run on virtual nodes has such a
// comparison. If values come from related counters, their errors are at most a third of the bound.
// If they come from return trips, the errors may be as large as the bound.
func (s *sample) addTruth() {
	held := func(n int64, largest float64) Held {
		h := Held{Held: n, Shares: make([]float64, 20), Largest: largest, Used_50: .05,
			Used_99: largest}
		steps := int(math.Ceil(largest * 20))
		for i := range steps {
			h.Shares[i] = math.Round(2*(float64(steps-i)-.5)/float64(steps*steps)*1e5) / 1e5
		}
		return h
	}
	var all, remote int64
	for _, x := range s.data.Spans {
		all += x.Count
		if x.Place == Remote {
			remote += x.Count
		}
		span := TrueSpan{Name: x.Name, Points: x.Points, Kind: x.Kind, Place: x.Place,
			Held: held(x.Count, .3)}
		for _, p := range x.Percentiles {
			if p.P == 50 {
				span.Median = Interval{p.Lo_cycles, p.Hi_cycles}
				middle := (p.Lo_cycles + p.Hi_cycles) / 2
				span.True = Interval{middle + 11, middle + 12}
			}
		}
		s.data.Truth.Spans = append(s.data.Truth.Spans, span)
	}
	s.data.Truth.Durations, s.data.Truth.Remote = held(all, .3), held(remote, .3)
	s.data.Truth.Methods = []TrueMethod{{Name: Ours, What: "moments", Held: held(270, .2)},
		{Name: ReT, What: "tuples", Held: held(sampleTuples, 1)},
		{Name: NTP, What: "pairs of claims", About: "the one REALTIME that the nodes share",
			Held: held(81, .4)}}
}

func (s *sample) comparisons(cycles func(float64) float64) {
	for _, c := range []struct {
		a, b    string
		ours    float64
		verdict Verdict
		ret     bool
	}{{"edge", "core-1", .63, Consistent, true}, {"edge", "core-2", 1.9, Suspect, true},
		{"core-1", "core-2", 2.4, Suspect, false}} {
		methods := []Method{{Name: Ours, Proven: c.verdict == Consistent}, {Name: MinRTT},
			{Name: ReT}, {Name: NTP}}
		for b := range sampleBuckets {
			wave := 1 + .25*math.Sin(float64(b)/14)
			noise := func() float64 { return math.Exp(.25 * s.random.NormFloat64()) }
			load := 1.0
			if b > 110 && b < 128 {
				load = 4
			}
			put := func(m int, us float64) {
				methods[m].Bound = append(methods[m].Bound, int64(cycles(us)))
			}
			put(0, c.ours*wave)
			put(1, c.ours*11)
			if c.ret {
				put(2, 150*load*noise())
			}
			if b%2 == 0 && b > 3 {
				put(3, 620*math.Exp(-float64(b)/300)*noise())
			} else {
				methods[3].Bound = append(methods[3].Bound, None)
			}
		}
		if !c.ret {
			methods[2].Absent = "no tuple's acknowledgement crosses this pair"
		}
		s.data.Comparisons = append(s.data.Comparisons, Comparison{c.a, c.b, c.verdict, methods})
	}
}

func (s *sample) tuples(cycles func(float64) float64) {
	type hop struct {
		name      string
		kind      Kind
		from, to  string
		us, bound float64
		verdict   Verdict
		scenario  string
	}
	for i := range 10 {
		worse := 1.9 - .1*float64(i)
		hops := []hop{
			{"source → parse", Transfer, "edge", "edge", 14 * worse, .05, Consistent,
				"on the reference node"},
			{"parse", Computation, "edge", "edge", 2.2, .05, Consistent, "on the reference node"},
			{"parse → enrich", Transfer, "edge", "core-1", 60 * worse, .63, Consistent,
				"between two nodes"},
			{"enrich", Computation, "core-1", "core-1", 31 * worse, .098, Consistent,
				"on another node"},
			{"enrich → window", Transfer, "core-1", "core-2", 420 * worse, 2.4, Suspect,
				"between two nodes"},
			{"window", Computation, "core-2", "core-2", 1.3, 2.0, Suspect, "on another node"},
			{"window → sink", Transfer, "core-2", "edge", 88 * worse, 1.9, Suspect,
				"between two nodes"},
		}
		if i%3 == 1 { // this tuple stayed on core-1
			hops[4] = hop{"enrich → window", Transfer, "core-1", "core-1",
				510 * worse, .098, Consistent, "on another node"}
			hops[5] = hop{"window", Computation, "core-1", "core-1", 6.1, .098, Consistent,
				"on another node"}
			hops[6] = hop{"window → sink", Transfer, "core-1", "edge", 71 * worse, .66, Consistent,
				"between two nodes"}
		}
		t := Tuple{ID: 0x0001_0000_0000_0000*uint64(i%2+1) + s.random.Uint64()>>20,
			Verdict: Consistent}
		// The error of an event is the error of its node's counter against the reference.
		off := map[string]float64{"edge": .05, "core-1": .63, "core-2": 1.9}
		at := 0.0
		moment := func(us float64, node string, first bool) Interval {
			e := off[node]
			if first {
				e = 0
			}
			return Interval{int64(cycles(us - e)), int64(math.Ceil(cycles(us + e)))}
		}
		for j, h := range hops {
			us := h.us * (1 + .1*s.random.Float64())
			step := Step{h.name, h.kind, h.from, h.to, moment(at, h.from, j == 0),
				moment(at+us, h.to, false),
				Interval{int64(cycles(us - h.bound)), int64(math.Ceil(cycles(us + h.bound)))},
				h.scenario, h.verdict, us < h.bound}
			at += us
			t.Steps = append(t.Steps, step)
			if h.verdict == Suspect {
				t.Verdict = Suspect
			}
		}
		t.Total = Interval{int64(cycles(at - .05)), int64(cycles(at + .05))}
		s.addPause(&t, cycles)
		s.data.Tuples = append(s.data.Tuples, t)
	}
	slices.SortFunc(s.data.Tuples,
		func(a, b Tuple) int { return int(b.Total.Lo_cycles - a.Total.Lo_cycles) })
	for i, why := range []string{"slowest", "2nd slowest", "3rd slowest", "4th slowest",
		"5th slowest", "6th slowest", "7th slowest", "8th slowest", "9th slowest", "10th slowest"} {
		s.data.Tuples[i].Why = why
	}
}

// addPause adds a pause of a JVM on core-1. The pause begins while the tuple is on core-1.
func (s *sample) addPause(t *Tuple, cycles func(float64) float64) {
	const bound = 1.2 + .63
	begin := t.Steps[3].Start.Hi_cycles + int64(cycles(5))
	length := int64(cycles(270 + 90*s.random.Float64()))
	about := func(at int64) Interval {
		return Interval{at - int64(cycles(bound)), at + int64(cycles(bound))}
	}
	p := Pause{"jvm-2231", "core-1", "G1CollectForAllocation", about(begin), about(begin + length),
		about(length), []int{2, 3, 4}}
	if t.Steps[5].From == "core-1" {
		p.Steps = append(p.Steps, 5, 6)
	}
	t.Pauses, t.Paused, t.Paused_known = []Pause{p}, about(length), true
}

func (s *sample) nodes() {
	facts := func(quantum, slack string, invariant string) []Fact {
		return []Fact{{"counter", invariant}, {"quantum", quantum}, {"core slack", slack},
			{"processor", "AMD EPYC 9B45, 2 virtual CPUs"}, {"kernel", "Linux 6.18.5"},
			{"clock source", "kvm-clock"}}
	}
	d := s.data
	d.Nodes = []Node{
		{"edge", "boot 3f1c09aa, unbroken", false, "",
			facts("1 cycle", "127 cycles", "invariant TSC, rdtscp")},
		{"core-1", "boot 99b1d0e2, unbroken", false, "",
			facts("26 cycles", "101 cycles", "invariant TSC, rdtscp")},
		{"core-2", "boot 0c77ab10, unbroken", true, "connection lost 4 s before the end", nil}}
	d.Pairs = []Pair{
		{"edge", "core-1", Consistent, "", 1637, 2011, 1 - 18.1e-9, 1000, 12, 4292, 181, "direct"},
		{"edge", "core-2", Suspect, "the rate moved by more than 1 ppm within 10 s, 61 s after " +
			"the beginning", 4933, 8816, 1 + 237e-9, 3120, 1560, 4004, 174, "over core-1"},
		{"core-1", "core-2", Suspect, "the rate moved by more than 1 ppm within 10 s, 61 s after " +
			"the beginning", 6231, 9154, 1 + 255e-9, 3120, 1560, 3990, 174, "direct"}}
	d.Assumptions = []Assumption{
		{"wander", "1 ppm over ±10 s", "how far the relative rate of two counters moves from its " +
			"mean within a window", Suspect},
		{"core slack", "127, 101 and 110 cycles", "how far the cores of one node disagree", ""},
		{"quantum", "1, 26 and 1 cycles", "the step in which a counter really moves", ""},
		{"epochs", "unbroken", "no boot, suspend, migration or reset of a counter during the run",
			Consistent}}
	d.Findings = []Finding{
		{ReceivedBeforeSent, 0, 8_214_006, Good, "pairs whose interval says that the receipt " +
			"came before the send: one would prove an assumption wrong"},
		{"lost", 2291, sampleTuples, Note, "tuples that entered the job and never left it"},
		{"in flight", 25, sampleTuples, Note, "tuples still on their way when the run ended"},
		{"duplicated", 31, sampleTuples * 7, Note, "records with an id that the channel had " +
			"logged already"},
		{"out of order", 40_133, sampleTuples, Note, "tuples that overtook another, surely"},
		{"undecided orders", 1204, sampleTuples, Note, "pairs of which the bound cannot tell " +
			"which came first"},
		{"dropped by the log", 0, sampleTuples*7 + 31, Good, "events that a full ring " +
			"did not keep"}}
}
