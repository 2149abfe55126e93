package answers

import (
	"strings"
	"testing"

	"github.com/cloudprofiler/cloudprofiler/analysis"
	"github.com/cloudprofiler/cloudprofiler/internal/command/commandtest"
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
		d := &analysis.Durations{Count: n}
		for percent, middle := range map[float64]int64{50: p50, 99: p99} {
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
		Origin: "earliest", Remote: windows}}
	quick, wait, store := durations(2_300, 300, 900, 280),
		durations(2_300, 2_034_864_189, 2_100_000_000, 279),
		durations(2_300, 1_654_493, 2_000_000, 147)
	for i, d := range []*analysis.Durations{quick, wait, store} {
		ends := []string{"window/intended", "window/start", "window/end", "store/start"}
		a.Spans = append(a.Spans, analysis.Span{From: ends[i], To: ends[i+1], Kind: "inside",
			Local: d, All: *d})
	}
	a.Spans[0].All = *remote
	a.Paths = []analysis.Path{
		{From: []string{"source/send"}, Tuples: 37_700,
			Spans: []analysis.RankedSpan{{Span: 0}, {Span: 2}}},
		{From: []string{"window/intended"}, Tuples: 2_300, MadeOf: []int{0},
			Spans: []analysis.RankedSpan{{Span: 3, Surely: true}, {Span: 4, Surely: true},
				{Span: 2, Surely: true}}},
		{From: []string{"alone/recv"}, Tuples: 7, Spans: []analysis.RankedSpan{{Span: 1}}},
	}
	a.Held = held(40_008, 2, 3, 1.25)
	a.Points = []analysis.Point{{Name: "source/send", Tuples: 40_000},
		{Name: "worker/recv", Tuples: 39_990, Lost: 8, InFlight: 2, Duplicates: 1, Disordered: 4,
			Undecided: "the log of worker#0/send is not whole"}}
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
		"C is suspect"}, {Kind: analysis.FindNote, Text: "good to know"}}
	return a
}

func TestAnswerOutput(t *testing.T) {
	var out strings.Builder
	if err := printAnswer(&out, printedAnswer()); err != nil {
		t.Fatal(err)
	}
	commandtest.Golden(t, "analyze.txt", out.String())
}

func TestDiffOutput(t *testing.T) {
	before, after := &analysis.Answer{Run: "monday"}, &analysis.Answer{Run: "tuesday"}
	before.Work.Tuples, after.Work.Tuples = 40_000, 39_000
	before.Reference = analysis.Reference{Node: "A", FrequencyLo_hz: 2.5e9,
		FrequencyHi_hz: 2.5e9 + 50, Source: "a clock"}
	after.Reference = analysis.Reference{Node: "B", FrequencyLo_hz: 2.5e9, FrequencyHi_hz: 2.5e9,
		Source: "nominal"}
	var out strings.Builder
	if err := printChanges(&out, [2]*analysis.Answer{before, after}, []analysis.Change{
		{From: "source/send", To: "worker/recv", Percent: 50, BeforeLo_ns: 1_000,
			BeforeHi_ns: 1_400, AfterLo_ns: 2_000, AfterHi_ns: 2_400, Noise_ns: 75,
			Verdict: analysis.Slower},
		{From: "source/send", To: "worker/recv", Percent: 99, BeforeLo_ns: 8_000,
			BeforeHi_ns: 9_000, AfterLo_ns: 8_100, AfterHi_ns: 9_100, Noise_ns: 300, Suspect: true,
			Verdict: analysis.Undecided},
		{From: "source/send", To: "sink/recv", Origin: "latest", Verdict: analysis.Gone},
	}); err != nil {
		t.Fatal(err)
	}
	commandtest.Golden(t, "diff.txt", out.String())
}

// A single part is reported in the singular.
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
