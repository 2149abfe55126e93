package report

import (
	"context"
	"fmt"
	"math"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/cloudprofiler/cloudprofiler/analysis"
	"github.com/cloudprofiler/cloudprofiler/internal/simrun"
	"github.com/cloudprofiler/cloudprofiler/runs"
)

// inventedChain is an invented run, and the answer to it.
func inventedChain(t *testing.T) (*analysis.Answer, *runs.Directory) {
	t.Helper()
	parent := t.TempDir()
	if err := simrun.Chain(7, parent, "chain", 3, 20000, 10000); err != nil {
		t.Fatal(err)
	}
	run, err := runs.Open(filepath.Join(parent, "chain"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { run.Close() })
	answer, err := analysis.Run(context.Background(), run, analysis.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return answer, run
}

// Each tuple that took its whole path is counted once, even on a path of one span, for which the
// report has no end-to-end row.
func TestFromCountsWholeWays(t *testing.T) {
	a, run := inventedChain(t)
	if n := From(a, run, "a test").Totals.Complete; n != 20000 {
		t.Errorf("over three points: %d", n)
	}
	o := analysis.Options{Filter: analysis.Filter{Channels: []string{"stage0/*", "stage2/*"}}}
	a, err := analysis.Run(context.Background(), run, o)
	if err != nil {
		t.Fatal(err)
	}
	if n := From(a, run, "a test").Totals.Complete; n != 20000 || len(a.EndToEnd) != 0 {
		t.Errorf("over two points: %d, end to end %v", n, a.EndToEnd)
	}
}

func TestFromShowsWhatIsSlow(t *testing.T) {
	a, run := inventedChain(t)
	path := From(a, run, "a test").Paths[0]
	if diff := cmp.Diff(Path{Begins: []string{"stage0"}, Ends: []string{"stage2"},
		Points: a.Paths[0].From[0], Tuples: 20000, Of: "20000 tuples",
		Slowest: path.Slowest}, path); diff != "" {
		t.Error(diff)
	}
	if len(path.Slowest) != min(len(a.Spans), maxSlow) {
		t.Errorf("%d are slow of %d", len(path.Slowest), len(a.Spans))
	}
	for i, s := range path.Slowest {
		l := a.Spans[a.Paths[0].Spans[i].Span]
		p50, _ := l.All.Percentiles.At(50)
		if want := (Slow{Name: s.Name, Points: l.From + " → " + l.To, Median: roundInterval(p50),
			Verdict: Consistent, Share: Share(*a.Paths[0].Spans[i].Share),
			Surely: a.Paths[0].Spans[i].Surely}); s != want {
			t.Errorf("%+v, want %+v", s, want)
		}
	}
	// Now the answer has an estimate, a path of tuples that were made of another path's tuples, an
	// actor with two points, and more spans than a page shows.
	a.Spans[a.Paths[0].Spans[0].Span].All.Suspect = 1
	for range maxSlow {
		a.Paths[0].Spans = append(a.Paths[0].Spans, analysis.RankedSpan{Span: 0})
	}
	a.Points = append(a.Points, analysis.Point{Name: "window/start", Actor: "window"},
		analysis.Point{Name: "window/end", Actor: "window"})
	a.Paths = append(a.Paths, analysis.Path{From: []string{"window/start", "window/end"},
		To: []string{"window/end"}, Tuples: 5, MadeOf: []int{0}})
	paths := From(a, run, "a test").Paths
	if s := paths[0].Slowest; len(s) != maxSlow || s[0].Verdict != Suspect {
		t.Errorf("%+v", s)
	}
	if diff := cmp.Diff(Path{Begins: []string{"window"}, Ends: []string{"window"},
		Points: "window/start, window/end", Tuples: 5, Made_of: []int{0},
		Of: "5 tuples that were made of others"}, paths[1]); diff != "" {
		t.Error(diff)
	}
}

// Among the assumptions, the page lists what a person says about shared clocks and hardware stamps.
func TestFromListsWhatOperatorsSay(t *testing.T) {
	a, run := inventedChain(t)
	before := len(From(a, run, "a test").Assumptions)
	a.Nodes[0].Facts = map[string]string{"shared_clock": "host-17", "hardware_stamps": "eth0"}
	after := From(a, run, "a test").Assumptions
	for _, want := range []Assumption{
		{Name: "shared clock of " + a.Nodes[0].Name, Value: "as an operator says",
			Means: "host-17"},
		{Name: "hardware stamps of " + a.Nodes[0].Name, Value: "as an operator says",
			Means: "eth0"},
	} {
		if len(after) != before+2 || !slices.Contains(after, want) {
			t.Errorf("%+v is not among %+v", want, after)
		}
	}
}

func TestFromShowsTheAnswer(t *testing.T) {
	a, run := inventedChain(t)
	d := From(a, run, "a test")
	page := written(t, d)
	if again := written(t, From(a, run, "a test")); again != page {
		t.Error("one answer gave two pages")
	}
	// only virtual nodes know the truth
	if len(d.Absent) != 1 || d.Absent[0].Part != PartTruth || d.Verdict != Consistent {
		t.Errorf("verdict %s, absent %v: want all of it, consistent", d.Verdict, d.Absent)
	}
	if len(d.Actors) != 3 || len(d.Pairs) != 3 || len(d.Comparisons) != 3 || len(d.Nodes) != 3 ||
		len(d.Tuples) != len(a.Slowest) {
		t.Errorf("%d actors, %d pairs, %d comparisons, %d nodes, %d tuples",
			len(d.Actors), len(d.Pairs), len(d.Comparisons), len(d.Nodes), len(d.Tuples))
	}
	spans := append(slices.Clone(a.EndToEnd), a.Spans...)
	if len(d.Spans) != len(spans) { // each span has one row, because it has one pair of nodes
		t.Fatalf("%d spans of %d spans", len(d.Spans), len(spans))
	}
	for i, s := range d.Spans {
		l := spans[i].Pairs[0]
		if s.Count != int64(l.Count) || s.Points != spans[i].From+" → "+spans[i].To ||
			s.Place != Remote {
			t.Errorf("span %d is %q with %d durations, %s; the span has %d", i, s.Points,
				s.Count, s.Place, l.Count)
		}
		for _, p := range l.Percentiles {
			if !slices.Contains(s.Percentiles, Percentile{p.Percent, p.Lo_cycles, p.Hi_cycles}) {
				t.Errorf("span %d has no percentile %v", i, p)
			}
		}
		for _, p := range []float64{0, 25, 50, 75, 100} {
			if !slices.ContainsFunc(s.Percentiles, func(q Percentile) bool { return q.P == p }) {
				t.Errorf("span %d has no percentile %v, which boxes are drawn from", i, p)
			}
		}
	}
	var counted int64
	for _, c := range d.Throughput[0].Count {
		counted += max(c, 0)
	}
	if tuples := int64(a.Work.Tuples); counted < tuples*9/10 || counted > tuples {
		t.Errorf("%d events over time, and %d tuples", counted, tuples)
	}
	for _, f := range d.Findings {
		if f.Name == ReceivedBeforeSent && (f.Count != 0 || f.Weight != Good) {
			t.Errorf("%d received before sent, weight %s", f.Count, f.Weight)
		}
	}
}

// Our bounds over time come from the same relations as the answer's bounds, so the medians of both
// are near each other. The paper's method has a bound in each bucket, too.
func TestFromComparesBounds(t *testing.T) {
	a, run := inventedChain(t)
	d := From(a, run, "a test")
	for _, c := range d.Comparisons {
		i := slices.IndexFunc(d.Pairs, func(p Pair) bool { return p.A == c.A && p.B == c.B })
		if i < 0 {
			t.Fatalf("%s and %s are compared and are no pair", c.A, c.B)
		}
		for _, m := range c.Methods {
			var got []int64
			for _, v := range m.Bound {
				if v != None {
					got = append(got, v)
				}
			}
			switch m.Name {
			case Ours:
				slices.Sort(got)
				if len(got) != d.Timeline.Buckets {
					t.Fatalf("%s and %s: %d bounds in %d buckets",
						c.A, c.B, len(got), d.Timeline.Buckets)
				}
				ratio := float64(got[len(got)/2]) / float64(d.Pairs[i].Bound_cycles)
				if ratio < 0.7 || ratio > 1.4 {
					t.Errorf("%s and %s: median bound over time %d, the answer's %d",
						c.A, c.B, got[len(got)/2], d.Pairs[i].Bound_cycles)
				}
			case MinRTT:
				if len(got) != d.Timeline.Buckets || got[0] <= 0 {
					t.Errorf("%s and %s: no bound by MinRTT: %s", c.A, c.B, m.Absent)
				}
			default:
				if len(got) > 0 || m.Absent == "" {
					t.Errorf("%s and %s: %s has %d bounds, and no reason",
						c.A, c.B, m.Name, len(got))
				}
			}
		}
	}
}

func TestFromMarksEstimates(t *testing.T) {
	a, run := inventedChain(t)
	a.Pairs[0].Verdict, a.Pairs[0].LeastWander_ppm, a.Pairs[0].Wander_ppm = "suspect", 0.8, 1.6
	a.Spans[0].Pairs[0].Suspect = 5
	a.Slowest[0].Passed[1].Verdict = "suspect"
	d := From(a, run, "a test")
	if d.Verdict != Suspect {
		t.Error("the page is not marked")
	}
	suspect := 0
	for _, p := range d.Pairs {
		if p.Verdict == Suspect {
			suspect++
			if !strings.Contains(p.Reason, "0.8 ppm") {
				t.Errorf("reason %q", p.Reason)
			}
		}
	}
	if suspect != 1 {
		t.Errorf("%d pairs are marked, want 1", suspect)
	}
	for _, s := range d.Spans {
		want := s.Points == a.Spans[0].From+" → "+a.Spans[0].To
		if (s.Verdict == Suspect) != want || (s.Suspect == 5) != want {
			t.Errorf("span %q: %s, %d estimates", s.Points, s.Verdict, s.Suspect)
		}
	}
	marked := slices.IndexFunc(d.Tuples,
		func(x Tuple) bool { return x.ID == uint64(a.Slowest[0].ID) })
	if x := d.Tuples[marked]; x.Verdict != Suspect || x.Steps[0].Verdict != Suspect {
		t.Errorf("tuple: %s, its first step: %s", x.Verdict, x.Steps[0].Verdict)
	}
	if d.Assumptions[0].Verdict != Suspect {
		t.Errorf("assumption %q: %s", d.Assumptions[0].Name, d.Assumptions[0].Verdict)
	}
}

func TestFromReportsWhatIsWrong(t *testing.T) {
	a, run := inventedChain(t)
	a.Spans[0].All.After = 3
	a.Spans[0].All.Unplaced = 9
	a.Channels[0].Unaccounted = 2
	a.Points[0].Perhaps, a.Points[1].Perhaps = 4, 1
	a.Complete = false
	a.Findings = []analysis.Finding{{Kind: analysis.FindImpossible, Text: "x"},
		{Kind: analysis.FindUndecided, Text: "y"}, {Kind: analysis.FindNote, Text: "z"}}
	a.Missing = []analysis.Missing{{Part: runs.RelationPath("A", "B"), Reason: "torn"}}
	a.Pairs = a.Pairs[1:] // without the pair of A and B
	d := From(a, run, "a test")
	wrong := map[string]int64{}
	for _, f := range d.Findings {
		if f.Weight == Wrong {
			wrong[f.Name] = f.Count
		}
	}
	if !slices.ContainsFunc(d.Findings, func(f Finding) bool {
		return f.Name == "perhaps ended" && f.Count == 5 && f.Weight == Note
	}) {
		t.Errorf("findings %v: nothing of tuples that perhaps ended", d.Findings)
	}
	if wrong[ReceivedBeforeSent] != 3 || wrong["not computed"] != 9 || wrong["unaccounted"] != 2 ||
		len(wrong) != 3 {
		t.Errorf("wrong: %v", wrong)
	}
	if !slices.Contains(d.Remarks, Remark{Wrong, "x"}) || !slices.Contains(d.Undecided, "y") ||
		!slices.Contains(d.Remarks, Remark{Note, "z"}) {
		t.Errorf("remarks %v, undecided %v", d.Remarks, d.Undecided)
	}
	if !slices.ContainsFunc(d.Remarks,
		func(r Remark) bool { return strings.Contains(r.Text, "was not ended") }) {
		t.Errorf("remarks %v: nothing of the end", d.Remarks)
	}
	if !slices.ContainsFunc(d.Pairs, func(p Pair) bool {
		return p.A == "A" && p.B == "B" && p.Verdict == "" && p.Reason == "torn"
	}) {
		t.Errorf("pairs %v: A and B are not related", d.Pairs)
	}
}

func TestFromOfNothing(t *testing.T) {
	_, run := inventedChain(t)
	d := From(&analysis.Answer{Run: "nothing"}, run, "a test")
	written(t, d)
	for _, part := range []string{PartGraph, PartSegments, PartLatency, PartThroughput, PartBounds,
		PartTuples, PartNodes, PartSeconds} {
		if !slices.ContainsFunc(d.Absent,
			func(a Absent) bool { return a.Part == part && a.Reason != "" }) {
			t.Errorf("nothing says why %s is absent", part)
		}
	}
}

// A page stays within its size, even if the run has very many nodes, spans and pairs. The page says
// what it leaves out.
func TestFromLargeRun(t *testing.T) {
	a, run := inventedChain(t)
	span := a.Spans[0]
	for i := range 300 {
		span.From, span.To = fmt.Sprintf("actor%d/send", i), fmt.Sprintf("actor%d/recv", i+1)
		a.Spans = append(a.Spans, span)
		a.Points = append(a.Points, analysis.Point{
			Name: span.From, Actor: fmt.Sprintf("actor%d", i), Nodes: []string{"A"},
			PerBin: a.Points[0].PerBin,
		})
		a.Missing = append(a.Missing, analysis.Missing{Part: fmt.Sprint(i), Reason: "gone"})
	}
	for i := range 200 {
		a.Nodes = append(a.Nodes, analysis.Node{Name: fmt.Sprintf("node-%03d", i),
			Facts: map[string]string{"kernel": "Linux 6.18.5", "processor": "one of many"}})
	}
	d := From(a, run, "a test")
	t.Logf("%d bytes", len(written(t, d))) // Write fails above MaxBytes
	for _, part := range []string{PartSegments, PartThroughput, PartNodes} {
		if !slices.ContainsFunc(d.Absent, func(a Absent) bool { return a.Part == part }) {
			t.Errorf("nothing says what was left out of %s", part)
		}
	}
}

// A span has at most two rows, however many pairs of nodes it has: one for the durations within
// nodes, and one for those between nodes.
func TestFromManyPairs(t *testing.T) {
	a, run := inventedChain(t)
	l := &a.Spans[0]
	l.Local = l.Remote
	for i := range 10 {
		p := l.Pairs[0]
		p.From, p.To = fmt.Sprintf("n%d", i), fmt.Sprintf("n%d", i/2)
		l.Pairs = append(l.Pairs, p)
	}
	d := From(a, run, "a test")
	var places []Place
	for _, s := range d.Spans {
		if s.Points == l.From+" → "+l.To {
			places = append(places, s.Place)
			if s.Place == Local && !slices.Equal(s.Nodes, []string{"n0"}) {
				t.Errorf("local nodes %q", s.Nodes)
			}
		}
	}
	if !slices.Equal(places, []Place{Local, Remote}) {
		t.Errorf("spans of the span: %v", places)
	}
}

// A page shows what was checked against the truth: for each span, for all durations between nodes,
// and for each method over all pairs.
func TestFromShowsTheTruth(t *testing.T) {
	a, run := inventedChain(t)
	spans := append(slices.Clone(a.EndToEnd), a.Spans...)
	wrong := 0
	a.Held = new(analysis.Held)
	for i := range spans {
		h := &analysis.Held{Count: 100, Outside: uint64(i), MostUsed: 0.5,
			True: []analysis.Percentile{{Percent: 50,
				Interval: analysis.Interval{Lo_cycles: 7, Hi_cycles: 8}}}}
		h.Used[3] = 100 - uint64(i)
		wrong += i
		a.Held.Merge(h)
		spans[i].Remote.Held = h // Remote is a pointer, so this changes the answer
	}
	for i := range a.Comparisons {
		ntp := &a.Comparisons[i].Methods[3]
		ntp.Held, ntp.About = &analysis.Held{Count: 4, MostUsed: 0.25}, "another clock"
		ntp.Held.Used[0] = 4
	}
	d := From(a, run, "a test")
	written(t, d)
	if n := int64(100 * len(spans)); d.Truth.Durations.Held != n || d.Truth.Remote.Held != n ||
		d.Truth.Durations.Outside != int64(wrong) || len(d.Absent) > 0 {
		t.Errorf("%+v, absent %v", d.Truth, d.Absent)
	}
	if len(d.Truth.Spans) != len(spans) {
		t.Fatalf("%d spans of %d", len(d.Truth.Spans), len(spans))
	}
	for i, s := range d.Truth.Spans {
		h := s.Held
		if s.Name == "" || s.Place != Remote || s.True != (Interval{7, 8}) ||
			s.Median.Hi_cycles == 0 || h.Outside != int64(i) || h.Used_50 != 0.2 ||
			h.Largest != 0.5 || math.Abs(h.Shares[3]-1) > 1e-9 {
			t.Errorf("span %d: %+v", i, s)
		}
	}
	if m := d.Truth.Methods; len(m) != 1 || m[0].Name != NTP ||
		m[0].Held.Held != int64(4*len(a.Comparisons)) || m[0].About != "another clock" ||
		m[0].What != "pairs of claims" {
		t.Errorf("methods %+v", m)
	}
	a.Held = &analysis.Held{}
	if d := From(a, run, "a test"); d.Truth.Durations.Held != 0 || len(d.Absent) != 1 ||
		strings.Contains(d.Absent[0].Reason, "real machines") {
		t.Errorf("nothing was held: %v", d.Absent)
	}
}

// If a tuple waits before an actor begins to work on it, this wait is no computation of the actor:
// neither in the table of spans, nor in the comparison with the truth, nor in single tuples.
func TestWaitingWithinAnActorIsNoComputation(t *testing.T) {
	a := &analysis.Answer{}
	one := analysis.Durations{Count: 1}
	for _, p := range []string{"source/intended", "source/start", "source/end", "parse/recv",
		"parse/decoded"} {
		actor, _, _ := strings.Cut(p, "/")
		a.Points = append(a.Points, analysis.Point{Name: p, Actor: actor})
	}
	for i, kind := range []string{"inside", "computation", "transfer", "inside"} {
		a.Spans = append(a.Spans, analysis.Span{From: a.Points[i].Name, To: a.Points[i+1].Name,
			Kind: kind, All: one,
			Pairs: []analysis.NodePair{{From: "A", To: "A", Durations: one}}})
	}
	w := analysis.TuplePath{}
	for i, p := range a.Points {
		w.Passed = append(w.Passed, analysis.Passed{Point: p.Name, Node: "A"})
		if i > 0 {
			w.Passed[i].After = []analysis.Arrival{{From: i - 1}}
		}
	}
	a.Slowest = []analysis.TuplePath{w}
	f := &from{new(Data), a}
	f.spans()
	f.tuples()
	type row struct {
		Name  string
		Kind  Kind
		Means bool
	}
	want := []row{{"source/intended → source/start", Inside, true}, {"source", Computation, false},
		{"source → parse", Transfer, false}, {"parse/recv → parse/decoded", Inside, false}}
	for i, s := range f.Spans {
		if got := (row{s.Name, s.Kind, s.Means != ""}); got != want[i] {
			t.Errorf("span %d is %v, want %v", i, got, want[i])
		}
		if got := f.Tuples[0].Steps[i].Kind; got != want[i].Kind {
			t.Errorf("step %d is %s, want %s", i, got, want[i].Kind)
		}
	}
	if len(f.Spans) != len(want) {
		t.Errorf("%d spans, want %d", len(f.Spans), len(want))
	}
}

// The page shows parallel branches of a tuple as parallel steps. If a branch waited for another,
// its step says so.
func TestBranchesAreStepsBesideEachOther(t *testing.T) {
	a := &analysis.Answer{}
	w := analysis.TuplePath{}
	for _, p := range []string{"source/send", "fast/recv", "slow/recv", "sink/recv"} {
		actor, _, _ := strings.Cut(p, "/")
		a.Points = append(a.Points, analysis.Point{Name: p, Actor: actor})
		w.Passed = append(w.Passed, analysis.Passed{Point: p, Node: "A"})
	}
	since := &analysis.Interval{Lo_cycles: 10, Hi_cycles: 12}
	w.Passed[1].After = []analysis.Arrival{{From: 0, Since: since}}
	w.Passed[2].After = []analysis.Arrival{{From: 0, Since: since}}
	w.Passed[3].After = []analysis.Arrival{{From: 1, Since: since, Slack: since},
		{From: 2, Since: since}}
	a.Slowest = []analysis.TuplePath{w}
	f := &from{new(Data), a}
	f.tuples()
	var got []string
	for _, s := range f.Tuples[0].Steps {
		got = append(got, string(s.Kind)+" "+s.Name)
	}
	want := []string{"transfer source → fast", "transfer source → slow", "waiting fast → sink",
		"transfer slow → sink"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}
