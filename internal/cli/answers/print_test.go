package answers

import (
	"math"
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"github.com/cloudprofiler/cloudprofiler/analysis"
	"github.com/cloudprofiler/cloudprofiler/internal/command/commandtest"
	"github.com/cloudprofiler/cloudprofiler/internal/seed"
)

// printedAnswer returns a made-up answer that fills every part of the screen.
func printedAnswer() *analysis.Answer {
	held := func(n, outside uint64, steps int, most float64, median ...int64) *analysis.Held {
		h := &analysis.Held{Count: n, Outside: outside, MostUsed: most}
		for i := range steps {
			h.Used[i] = (n - outside) / uint64(steps)
		}
		if len(median) == 2 {
			h.True = []analysis.Percentile{{Percent: 50,
				Interval: analysis.Interval{Lo_cycles: median[0], Hi_cycles: median[1]}}}
		}
		return h
	}
	durations := func(n uint64, p50, p99, bound int64) *analysis.Durations {
		d := &analysis.Durations{Count: n,
			Max: analysis.Interval{Lo_cycles: 3*p99 - bound, Hi_cycles: 3*p99 + bound}}
		for percent, middle := range map[float64]int64{50: p50, 99: p99, 99.9: 2 * p99} {
			d.Percentiles = append(d.Percentiles,
				analysis.Percentile{Percent: percent,
					Interval: analysis.Interval{Lo_cycles: middle - bound,
						Hi_cycles: middle + bound}})
		}
		return d
	}
	a := &analysis.Answer{Run: "tuesday", Partial: true, Reference: analysis.Reference{Node: "A",
		Chosen: true, FrequencyLo_hz: 2.4999e9, FrequencyHi_hz: 2.5001e9,
		Source: "CLOCK_MONOTONIC_RAW"}}
	a.Work.Tuples = 40_000
	for _, name := range []string{"A", "B", "C"} {
		a.Nodes = append(a.Nodes, analysis.Node{Name: name})
	}
	a.Channels = []analysis.Channel{{Name: "source#0/send"}}
	a.Pairs = []analysis.Pair{
		{A: "A", B: "B", Bound_cycles: 1_600, Declared_ppm: 1, Window_s: 10, Verdict: "consistent"},
		{A: "A", B: "C", Bound_cycles: 2_700, Declared_ppm: 1, Window_s: 10, Verdict: "suspect"},
	}
	local, remote := durations(20_000, 2_610, 91_000, 280),
		durations(20_000, 27_265_701, 1_465_000_000, 2_072)
	local.Held, remote.Held = held(20_000, 0, 1, 0.0031, 2_610, 2_610),
		held(19_998, 2, 3, 1.25, 27_265_600, 27_265_602)
	remote.After, remote.Suspect, remote.Unplaced, remote.Undecided = 1, 20_000, 3, 5
	none := &analysis.Durations{Unplaced: 7}
	windows := durations(10, 2_034_864_189, 2_100_000_000, 279)
	windows.Held = held(10, 0, 2, 0.1)
	a.Spans = []analysis.Span{
		{From: "source/send", To: "worker/recv", Kind: "transfer", Local: local, Remote: remote},
		{From: "worker/recv", To: "worker/send", Kind: "computation", Local: none},
	}
	a.EndToEnd = []analysis.Span{{From: "source/send", To: "sink/recv", Kind: "end-to-end",
		Origin: "earliest", Remote: windows, All: *windows}}
	quick, wait, store := durations(2_300, 300, 900, 280),
		durations(2_300, 2_034_864_189, 2_100_000_000, 279),
		durations(2_300, 1_654_493, 2_000_000, 147)
	for i, d := range []*analysis.Durations{quick, wait, store} {
		ends := []string{"window/intended", "window/start", "window/end", "store/start"}
		a.Spans = append(a.Spans, analysis.Span{From: ends[i], To: ends[i+1], Kind: "inside",
			Local: d, All: *d})
	}
	a.Spans[0].All = *remote
	a.Spans[1].All, a.Spans[1].Completeness.Kept = *none, analysis.Sampled
	a.Spans[0].Pairs = []analysis.NodePair{{From: "B", To: "C", Durations: *local},
		{From: "A", To: "B", Durations: *remote}, {From: "A", To: "A", Durations: *quick}}
	a.Spans[0].Pairs[1].Count++
	a.Spans[3].Pairs = []analysis.NodePair{{From: "a-node-of-a-long-name", To: "another-such"},
		{From: "B", To: "B"}}
	way := durations(2_300, 2_036_518_982, 2_200_000_000, 290)
	a.EndToEnd = append(a.EndToEnd, analysis.Span{From: "window/intended", To: "store/start",
		Kind: "end-to-end", Local: way, All: *way,
		Pairs: []analysis.NodePair{{From: "C", To: "C", Durations: *way}}})
	a.Paths = []analysis.Path{
		{From: []string{"source/send"}, To: []string{"sink/recv"}, Tuples: 37_700,
			Spans: []analysis.RankedSpan{{Span: 0}, {Span: 2}}},
		{From: []string{"window/intended"}, To: []string{"store/start"}, Tuples: 2_300,
			Whole: 2_300, MadeOf: []int{0},
			Spans: []analysis.RankedSpan{
				{Span: 3, Surely: true, Share: &analysis.Share{Lo: 0.9991, Hi: 0.9993}},
				{Span: 4, Surely: true, Share: &analysis.Share{Lo: 0.0007, Hi: 0.0009}},
				{Span: 2, Surely: true, Share: &analysis.Share{}}}},
		{From: []string{"alone/recv"}, Tuples: 7, Spans: []analysis.RankedSpan{{Span: 1}}},
	}
	a.Held = held(40_008, 2, 3, 1.25)
	a.Points = []analysis.Point{{Name: "source/send", Tuples: 40_000},
		{Name: "worker/recv", Tuples: 39_990, Lost: 8, InFlight: 2, Perhaps: 3, Duplicates: 1,
			Disordered: 4, Undecided: "the log of worker#0/send is not whole"}}
	a.Length = &analysis.RunLength{Interval: analysis.Interval{Lo_cycles: 75_000_000_000,
		Hi_cycles: 75_000_004_000}, From: "source#0/sent on A", To: "sink#0/came on B",
		Poison: true, Tuples: 40_000, Verdict: "suspect"}
	a.Counters = []analysis.Counter{{Channel: "source#0/count", Node: "A",
		Total: 40_000,
		Periods: []analysis.Period{{Length: analysis.Interval{Lo_cycles: 2_499_000_000,
			Hi_cycles: 2_501_000_000}, Count: 4_000}}}}
	methods := func(absent ...string) (all []analysis.Method) {
		for i, name := range []string{analysis.Ours, analysis.MinRTT, analysis.ReT, analysis.NTP} {
			m := analysis.Method{Name: name, Median_cycles: int64(1_640 * (1 + 20*i))}
			if i >= 4-len(absent) {
				m.Absent = absent[i-4+len(absent)]
			} else {
				m.Held = held(128, 0, 2+i, 0.1*float64(2+i))
			}
			all = append(all, m)
		}
		return all
	}
	a.Comparisons = []analysis.Comparison{
		{A: "B", B: "C", Verdict: "suspect", Methods: methods("neither node started exchanges",
			"no return trips were logged", "the claims of node B were not kept")},
		{A: "A", B: "B", Verdict: "consistent",
			Methods: methods("the claims of node A were not kept")},
	}
	a.ReturnTrips = []analysis.ReturnTrips{{From: "source", FromNode: "A", To: "worker",
		ToNode: "B", ByReturnTrip: *durations(500, 400_000, 500_000, 39_000),
		ByCounters: *durations(500, 410_000, 510_000, 2_000), Unanswered: 3, Disagree: 1}}
	a.ReturnTrips[0].ByCounters.Suspect = 500
	since := analysis.Interval{Lo_cycles: 999, Hi_cycles: 1_001}
	a.Slowest = []analysis.TuplePath{{ID: 1<<64 - 1,
		Total: analysis.Interval{Lo_cycles: 1_999, Hi_cycles: 2_001}, Passed: []analysis.Passed{
			{Channel: "source#0/send", Node: "A"}, {Channel: "worker#0/recv", Node: "B",
				Since: &since}, {Channel: "sink#0/recv", Node: "C", Verdict: "suspect"},
		}}}
	a.Missing = []analysis.Missing{{Part: "logs/C", Reason: "no log of this node was collected"}}
	a.Findings = []analysis.Finding{{Kind: analysis.FindSuspect, Text: "the relation of A and " +
		"C is suspect: its data need a wander of at least 2.25 ppm, but 1 ppm was declared: what " +
		"rests on it is an estimate, and so is everything that rests on that, however far away"},
		{Kind: analysis.FindNote, Text: "good to know"}}
	return a
}

func TestAnswerOutput(t *testing.T) {
	for name, show := range map[string]shown{
		"analyze.txt":         {run: "tuesday"},
		"analyze-verbose.txt": {run: "tuesday", verbose: true},
	} {
		var out strings.Builder
		if err := printAnswer(&out, printedAnswer(), show); err != nil {
			t.Fatal(err)
		}
		commandtest.Golden(t, name, out.String())
	}
}

// An answer names the nodes whose bounds rest on what only a person says: on a shared clock, or on
// stamps of a network interface.
func TestAnswerNamesWhatOperatorsSay(t *testing.T) {
	a := printedAnswer()
	facts := map[string]string{"shared_clock": "host-17, within 0 ns", "hardware_stamps": "eth0"}
	wants := []string{"bounds of A also rest on a clock: host-17, within 0 ns",
		"bounds of A also rest on hardware stamps: eth0"}
	for _, said := range []bool{false, true} {
		if said {
			a.Nodes[0].Facts = facts
		}
		for _, show := range []shown{{run: "tuesday"}, {run: "tuesday", verbose: true}} {
			var out strings.Builder
			if err := printAnswer(&out, a, show); err != nil {
				t.Fatal(err)
			}
			text := strings.Join(strings.Fields(out.String()), " ")
			for _, want := range wants {
				if strings.Contains(text, want) != said {
					t.Errorf("verbose %v, said %v: want %q in\n%s", show.verbose, said, want,
						out.String())
				}
			}
		}
	}
}

// All lines fit on a screen, whatever a finding, a missing part or a reason says, and however long
// names are. Notes are printed only if asked for.
func TestFindingsFitOnTheScreen(t *testing.T) {
	long := strings.Repeat("größer als ", 60) + "das"
	for _, show := range []shown{{run: "r"}, {run: "r", notes: true},
		{run: strings.Repeat("r", 150), verbose: true, notes: true}} {
		a := printedAnswer()
		a.Findings = []analysis.Finding{{Kind: analysis.FindUndecided, Text: long},
			{Kind: analysis.FindNote, Text: long}}
		a.Missing = []analysis.Missing{{Part: "logs/A", Reason: long}}
		a.Paths[0].NoShares = long
		for i := range a.Points {
			a.Points[i].Undecided = long
		}
		if show.verbose {
			lengthenNames(a)
		}
		var out strings.Builder
		if err := printAnswer(&out, a, show); err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(out.String()) {
			if n := utf8.RuneCountInString(line) - 1; n > screenWidth {
				t.Errorf("%d characters: %s", n, line)
			}
		}
		_, text, _ := strings.Cut(out.String(), "\nmissing\n")
		words := strings.Join(strings.Fields(text), " ")
		if n := strings.Count(words, long); n != 2+map[bool]int{true: 1}[show.notes] {
			t.Errorf("notes %v: the text is printed %d times:\n%s", show.notes, n, text)
		}
	}
}

// lengthenNames makes all names as long as channels' names may be.
func lengthenNames(a *analysis.Answer) {
	name := func(s *string) { *s = strings.Repeat("x", 120) + *s }
	for _, spans := range [][]analysis.Span{a.Spans, a.EndToEnd} {
		for i := range spans {
			name(&spans[i].From)
			name(&spans[i].To)
			for k := range spans[i].Pairs {
				name(&spans[i].Pairs[k].From)
			}
		}
	}
	for i := range a.Paths {
		name(&a.Paths[i].From[0])
	}
	for i := range a.Points {
		name(&a.Points[i].Name)
	}
	for i := range a.Pairs {
		name(&a.Pairs[i].A)
		name(&a.Pairs[i].B)
	}
	for i := range a.Comparisons {
		name(&a.Comparisons[i].A)
		for k := range a.Comparisons[i].Methods {
			name(&a.Comparisons[i].Methods[k].Absent)
		}
	}
	name(&a.Run)
	name(&a.Length.From)
	name(&a.Counters[0].Channel)
	name(&a.Counters[0].Node)
	name(&a.ReturnTrips[0].From)
	name(&a.Slowest[0].Passed[0].Channel)
	name(&a.Reference.Node)
	name(&a.Reference.Source)
}

// A direct span from the first point of a path to the last, past the points between, is not the
// whole path.
func TestSpanPastOthersIsNotTheWholePath(t *testing.T) {
	a := printedAnswer()
	e := &a.EndToEnd[1]
	a.Spans = append(a.Spans, analysis.Span{From: e.From, To: e.To, Kind: "transfer", All: e.All})
	direct := len(a.Spans) - 1
	a.Paths[1].Spans = append([]analysis.RankedSpan{{Span: direct}}, a.Paths[1].Spans...)
	var out strings.Builder
	if err := printAnswer(&out, a, shown{run: "r"}); err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(out.String(), ", direct"); n != 2 {
		t.Errorf("it is called direct %d times:\n%s", n, &out)
	}
	if share, ok := shareOf(a, &a.Paths[1], &a.Spans[direct]); ok {
		t.Errorf("its share is %s", share)
	}
}

// If the ends of a span are cut, a reader can still recognize both.
func TestShortSpan(t *testing.T) {
	for _, test := range [][2]string{
		{"source/send → sink/recv", "source/send → sink/recv"},
		{"source/send → a/long-name-of-a-point/recv", "source/send → a/long-…t/recv"},
		{"a-long-name-of-an-actor/s → b-long-name-of-an-actor/r", "a-long…tor/s → b-long…ctor/r"},
		{"source/intended → sink/recv, earliest origin", "source/intende…rliest origin"},
	} {
		if got := shortSpan(test[0], 28); got != test[1] {
			t.Errorf("%q becomes %q, want %q", test[0], got, test[1])
		}
	}
}

// If an answer has no durations, it says that no tuple was seen at two points, but only if this is
// so.
func TestWhyThereAreNoDurations(t *testing.T) {
	a := &analysis.Answer{Points: []analysis.Point{{Tuples: 20}, {Tuples: 20}}}
	for tuples, want := range map[uint64]string{
		20: "tuples were seen at several points, and the findings say why these have no order",
		40: "no tuple was seen at two points",
	} {
		a.Work.Tuples = tuples
		var out strings.Builder
		if err := printAnswer(&out, a, shown{}); err != nil ||
			!strings.Contains(out.String(), "there are no durations: "+want+"\n") {
			t.Errorf("%d tuples, %v:\n%s", tuples, err, &out)
		}
	}
	var out strings.Builder
	if err := printAnswer(&out, &analysis.Answer{}, shown{captured: true}); err != nil ||
		strings.Contains(out.String(), "no durations") {
		t.Errorf("%v, only messages:\n%s", err, &out)
	}
}

func TestDiffOutput(t *testing.T) {
	before, after := &analysis.Answer{Run: "monday"}, &analysis.Answer{Run: "tuesday"}
	before.Work.Tuples, after.Work.Tuples = 40_000, 39_000
	before.Reference = analysis.Reference{Node: "A", FrequencyLo_hz: 2.5e9,
		FrequencyHi_hz: 2.5e9 + 50, Source: "a clock"}
	after.Reference = analysis.Reference{Node: "B", FrequencyLo_hz: 2.5e9, FrequencyHi_hz: 2.5e9,
		Source: "nominal"}
	var out strings.Builder
	changes := []analysis.Change{
		{From: "source/send", To: "worker/recv", Kind: "transfer", Percent: 50, BeforeLo_ns: 1_000,
			BeforeHi_ns: 1_400, AfterLo_ns: 2_000, AfterHi_ns: 2_400, Noise_ns: 75,
			Verdict: analysis.Slower},
		{From: "source/send", To: "worker/recv", Kind: "transfer", Percent: 99, BeforeLo_ns: 8_000,
			BeforeHi_ns: 9_000, AfterLo_ns: 8_100, AfterHi_ns: 9_100, Noise_ns: 300, Suspect: true,
			Verdict: analysis.Undecided, Needs: &analysis.Needs{Tuples: 12}},
		{From: "worker/recv", To: "worker/send", Kind: "computation", Percent: 50,
			BeforeLo_ns: 8_000, BeforeHi_ns: 9_000, AfterLo_ns: 8_100, AfterHi_ns: 9_100,
			Noise_ns: 300, Verdict: analysis.Undecided, Needs: &analysis.Needs{Bounds: true}},
		{From: "worker/recv", To: "worker/send", Kind: "computation", Percent: 99,
			BeforeLo_ns: 8_000, BeforeHi_ns: 8_001, AfterLo_ns: 8_100, AfterHi_ns: 8_101,
			Noise_ns: 300.1, Verdict: analysis.Undecided, Needs: &analysis.Needs{Runs: 7}},
		{From: "worker/send", To: "sink/recv", Kind: "transfer", Percent: 50, BeforeLo_ns: 8_000,
			BeforeHi_ns: 8_001, AfterLo_ns: math.NaN(), AfterHi_ns: math.NaN(),
			Noise_ns: math.Inf(1), Verdict: analysis.Withheld,
			Why: `run "tuesday" has no p50: all 4 durations are withheld`},
		{From: "worker/send", To: "sink/recv", Kind: "transfer", Percent: 99, BeforeLo_ns: 8_000,
			BeforeHi_ns: 8_001, AfterLo_ns: 8_001, AfterHi_ns: 8_002, Noise_ns: 40,
			Verdict: analysis.Same},
		{From: "source/send", To: "sink/recv", Kind: "end-to-end", Origin: "latest",
			Verdict: analysis.Gone},
		{From: strings.Repeat("source/", 20), To: "sink/recv", Kind: "gap",
			Verdict: analysis.Undecided, Why: "no run of the second side has it, but run " +
				"\"monday\" has all tuples, and run \"tuesday\" has the tuples of xoy x=1 y=4 " +
				"at " + strings.Repeat("worker/", 20)},
	}
	if err := printChanges(&out, [2][]*analysis.Answer{{before}, {after}}, changes); err != nil {
		t.Fatal(err)
	}
	for _, line := range strings.Split(out.String(), "\n") {
		if n := utf8.RuneCountInString(line); n > screenWidth {
			t.Errorf("%d characters: %s", n, line)
		}
	}
	commandtest.Golden(t, "diff.txt", out.String())
}

// If only one part is suspect, missing or undecided, the error is in the singular.
func TestPartial(t *testing.T) {
	a := printedAnswer()
	for _, test := range []struct {
		missing int
		want    string
	}{
		{1, `2 parts of run "tuesday" are suspect, missing or undecided`},
		{0, `1 part of run "tuesday" is suspect, missing or undecided`},
	} {
		a.Missing = a.Missing[:test.missing]
		if err := partial(a); err == nil || !strings.HasPrefix(err.Error(), test.want) {
			t.Errorf("%v, want %q", err, test.want)
		}
	}
}

// Each line of the table fits on a screen. A printed duration or share is an interval that contains
// the exact one.
func TestTableIsWideEnoughAndNoWider(t *testing.T) {
	rng := seed.Random(t)
	for range 200 {
		a := printedAnswer()
		if rng.IntN(4) == 0 {
			a.Reference.FrequencyLo_hz, a.Reference.FrequencyHi_hz = 0, 0
		}
		for i := range a.Spans {
			l := &a.Spans[i]
			l.From = strings.Repeat("ö", rng.IntN(60)) + "/" + l.From
			for k := range l.All.Percentiles {
				lo := rng.Int64N(1<<rng.UintN(61)+1) - rng.Int64N(1<<rng.UintN(40)+1)
				l.All.Percentiles[k].Lo_cycles = lo
				l.All.Percentiles[k].Hi_cycles = lo + rng.Int64N(1<<rng.UintN(60)+1)
			}
		}
		var out strings.Builder
		printTable(&out, a)
		for _, line := range strings.Split(out.String(), "\n")[1:] {
			if line == "" { // the remarks follow
				break
			}
			if n := utf8.RuneCountInString(line); n > screenWidth {
				t.Fatalf("%d characters: %s", n, line)
			}
		}
		least := rng.Float64() * 100
		most := least + rng.Float64()*rng.Float64()*100
		text := percentText(least, most)
		middle, bound, _ := strings.Cut(text, "±")
		m, err := strconv.ParseFloat(middle, 64)
		b, err2 := strconv.ParseFloat(bound, 64)
		const rounding = 1e-9 // the error of decimal fractions
		if err != nil || err2 != nil || m-b > least+rounding || m+b < most-rounding ||
			b > (most-least)/2+1.5 {
			t.Fatalf("%s stands for %v to %v, %v, %v", text, least, most, err, err2)
		}
	}
}

// The advice begins with what matters most. Its order is: figures that are not proven, lost tuples,
// a load that itself came late, the slowest span, and the worst nodes of that span.
func TestAdvice(t *testing.T) {
	a := printedAnswer()
	const single = "single tuples: cprof analyze x --channel 'source*/send' " +
		"--channel 'worker*/recv' --slowest 5"
	last := []string{"when it was slow: cprof report x", "all figures: cprof analyze x -v"}
	check := func(want ...string) {
		t.Helper()
		if d := cmp.Diff(append(want, last...), advice(a, "x")); d != "" {
			t.Error(d)
		}
	}
	const worst = "source/send → worker/recv: its p99 is largest from A to B"
	check("the findings below: they say which figures are not proven, and why",
		"up to 11 tuples may have been lost after worker/recv: see the table of points", worst)
	a.Points[1].Undecided, a.Points[1].Perhaps = "", 0
	check("the findings below: they say which figures are not proven, and why",
		"8 tuples were lost after worker/recv: see the table of points", worst)
	a.Findings, a.Points = nil, nil
	check(worst, single)
	p99 := func(pair int) *analysis.Interval {
		for i := range a.Spans[0].Pairs[pair].Percentiles {
			if p := &a.Spans[0].Pairs[pair].Percentiles[i]; p.Percent == 99 {
				return &p.Interval
			}
		}
		return nil
	}
	*p99(0), *p99(2) = analysis.Interval{Lo_cycles: 5, Hi_cycles: 7},
		analysis.Interval{Lo_cycles: 5, Hi_cycles: 7}
	*p99(1) = analysis.Interval{Lo_cycles: 8, Hi_cycles: 9}
	check(worst, single)
	p99(1).Lo_cycles, p99(2).Hi_cycles = 7, 6 // pair 1 is no longer surely above pair 0
	check(single)
	a.Paths[0].Spans[0], a.Paths[0].Spans[1] = a.Paths[0].Spans[1], a.Paths[0].Spans[0]
	check("the load: it perhaps came late by more than any span took. Is its machine too slow?",
		single)
	a.Paths[0].Spans[0].Surely = true
	check("the load: it came late by more than any span took. Is its machine too slow?", single)
}

// A share is a part of the time of the span's own path. Spans from end to end take all of this
// time.
func TestShare(t *testing.T) {
	a := printedAnswer()
	for _, test := range []struct {
		path int
		span *analysis.Span
		want string
	}{
		{1, &a.Spans[3], "99.9±0.1"}, {1, &a.Spans[4], "0.1±0.1"}, {0, &a.Spans[3], ""},
		{0, &a.Spans[0], ""}, {1, &a.EndToEnd[1], "100"}, {0, &a.EndToEnd[0], ""},
	} {
		got, ok := shareOf(a, &a.Paths[test.path], test.span)
		if ok != (test.want != "") || ok && got != test.want {
			t.Errorf("%s on path %d: %q, %v, want %q", spanName(test.span), test.path, got, ok,
				test.want)
		}
	}
	if _, ok := shareOf(a, nil, &a.Spans[3]); ok {
		t.Error("a span of no path has a share")
	}
}

func TestNoiseHasTheUnitBesideIt(t *testing.T) {
	for beside, want := range map[string]string{
		"1.20 ± 0.20 ms -": "0.302 ms", "8.00050 µs ± 0.50 ns 900 ns": "301.600 µs",
		"3 s 900 ms": "0.001 s", "900 ns 800 ns": "301600 ns", "- -": "301600 ns",
	} {
		if got := roundedUp(301_600, beside); got != want {
			t.Errorf("beside %q: %q, want %q", beside, got, want)
		}
	}
}
