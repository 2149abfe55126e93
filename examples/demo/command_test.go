package demo

import (
	"errors"
	"flag"
	"math/big"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/cloudprofiler/cloudprofiler/analysis"
	"github.com/cloudprofiler/cloudprofiler/tscratio"
	"github.com/cloudprofiler/cloudprofiler/vnode"
)

// demoSpan is a span of 100 durations with the same bound. The first duration is given. Each later
// duration is longer than the previous one by a given step.
func demoSpan(from, to string, lo, step, bound int64, between ...string) *Span {
	h := &Span{From: from, To: to, Pairs: map[[2]string]int{}}
	for i := range int64(100) {
		at := lo + i*step
		h.Durations = append(h.Durations, tscratio.Elapsed{Lo: at - bound, Hi: at + bound})
		if len(between) == 2 {
			h.Crosses++
			h.Widths = append(h.Widths, 2*bound)
			h.Pairs[[2]string{between[0], between[1]}]++
		}
	}
	for _, percent := range []int64{50, 99} {
		at := h.Durations[percent-1]
		h.Percentiles = append(h.Percentiles, analysis.Percentile{
			Percent:  float64(percent),
			Interval: analysis.Interval{Lo_cycles: at.Lo, Hi_cycles: at.Hi},
		})
	}
	return h
}

// demoResult is an invented result of a demonstration that goes well.
func demoResult() *Result {
	r := &Result{
		Nodes: []NodeFacts{
			{Name: "A", Start: 1 << 40, Rate: 0, Shape: vnode.Steady},
			{Name: "B", Start: 18446744073709551000, Rate: -12.345, Shape: vnode.Sine},
		},
		Namespaces: true, NTP: true, Wander: 1_000_000,
		Trains: 120, Exchanges: 1200, Stamps: 4800, Kernel: 4700, Tuples: 100,
		Paper: Paper{
			Exchanges: 404, RoundTrip: 90_000,
			Anchors: []Anchors{{E: big.NewRat(170_000, 1), Apart_cycles: 4_000_000_000}},
		},
		Spans: []*Span{
			demoSpan("source/start", "source/end", 4_500, 1_000, 160),
			demoSpan("source/end", "deserialise/start", 1_800_000, 300_000, 1_900, "A", "B"),
			demoSpan("deserialise/start", "deserialise/end", 19_000, 6_400, 160),
			demoSpan("deserialise/end", "filter/start", 1_250_000, 330_000, 1_850, "A", "B"),
			demoSpan("project/end", "join/start", 1_300_000, 800_000, 1_770, "A", "B"),
			demoSpan("join/start", "join/end", 2_750, 30_000, 160),
			demoSpan("window/start", "window/end", 3_000_000_000, 1_000, 160),
			demoSpan("window/end", "store/start", 9_000_000, 900_000, 1500, "A", "B"),
		},
	}
	early := demoSpan("source/start", "join/end", 9_000_000, 1_000_000, 1_040, "A", "B")
	whole := demoSpan("source/start", LastPoint, 9_750_000, 1_100_000, 1_040, "A", "B")
	early.Since, whole.Since = true, true
	r.Spans = append(r.Spans, early, whole)
	held := func(n, most uint64) *analysis.Held {
		h := &analysis.Held{Count: n, MostUsed: float64(most) / analysis.UsedSteps}
		for i := range most {
			h.Used[i] = n / most
		}
		return h
	}
	r.Answer = &analysis.Answer{
		Pairs: []analysis.Pair{{
			A: "A", B: "B", Window_s: 10, LeastWander_ppm: 0.1437, Verdict: "consistent",
		}},
		Comparisons: []analysis.Comparison{{
			A: "A", B: "B", Verdict: "consistent",
			Methods: []analysis.Method{
				{Name: analysis.Ours, Median_cycles: 1_640, Held: held(128, 4)},
				{Name: analysis.MinRTT, Median_cycles: 39_000, Held: held(128, 16)},
				{Name: analysis.ReT, Median_cycles: 655_250, Held: held(50, 20)},
				{Name: analysis.NTP, Median_cycles: 13_250, About: "another clock"},
			},
		}},
		Held: held(800, 4),
	}
	var tuples, windows []analysis.RankedSpan
	for i, l := range []struct { // the slowest of each route comes first
		from, to, kind string
		p50, bound     int64
	}{
		{"source/intended", "source/start", "inside", 460_000, 190},
		{"source/end", "deserialise/start", "transfer", 470_000, 1_300},
		{"join/end", "count/start", "transfer", 440_000, 1_200},
		{"window/start", "window/end", "computation", 2_360_000_000, 160},
		{"window/end", "store/start", "transfer", 107_000_000, 1_400},
	} {
		median := analysis.Interval{Lo_cycles: l.p50 - l.bound, Hi_cycles: l.p50 + l.bound}
		r.Answer.Spans = append(r.Answer.Spans, analysis.Span{
			From: l.from, To: l.to, Kind: l.kind,
			All: analysis.Durations{
				Count:       100,
				Percentiles: analysis.Percentiles{{Percent: 50, Interval: median}},
			},
		})
		least := 0.25 - 0.02*float64(i)
		ranked := analysis.RankedSpan{
			Span: i, Share: &analysis.Share{Lo: least, Hi: least + 0.001}, Surely: true,
		}
		if i < 3 {
			tuples = append(tuples, ranked)
		} else {
			windows = append(windows, ranked)
		}
	}
	r.Answer.Reference = analysis.Reference{
		Node: "A", FrequencyLo_hz: 2.5e9, FrequencyHi_hz: 2.5e9 + 20,
		Source: "CLOCK_MONOTONIC_RAW over the run",
	}
	r.Answer.Paths = []analysis.Path{
		{From: []string{"source/intended"}, Tuples: 100, Whole: 33, Spans: tuples},
		{From: []string{"window/start"}, Tuples: 7, Whole: 7, MadeOf: []int{0}, Spans: windows},
	}
	return r
}

func TestDemoOutput(t *testing.T) {
	print := func(r *Result, o Options) string {
		var out strings.Builder
		if err := printDemo(&out, r, nil, o); err != nil {
			t.Fatal(err)
		}
		return out.String()
	}
	text := print(demoResult(), Options{Keep: "tuesday"})
	golden(t, "demo.txt", text)
	readmeShows(t, text)

	bad := demoResult()
	bad.Namespaces, bad.WhyLoopback = false, errors.New("operation not permitted")
	bad.NTP, bad.Lost = false, 3
	bad.Spans[1].Outside = 2
	bad.Answer.Pairs[0].Verdict = "suspect"
	bad.Answer.Comparisons[0].Methods[0].Held.Outside = 1
	for _, method := range bad.Answer.Comparisons[0].Methods[1:] {
		method.Held = nil
	}
	golden(t, "demo-bad.txt", print(bad, Options{}))
}

var numbers = regexp.MustCompile(`[0-9]+(\.[0-9]+)?`)

// readmeShows fails if the README shows a line of output that the demonstration does not print. It
// ignores the numbers.
func readmeShows(t *testing.T, printed string) {
	t.Helper()
	readme, err := os.ReadFile("../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	_, excerpt, found := strings.Cut(string(readme), "```text\n4 counters ")
	excerpt, _, ended := strings.Cut(excerpt, "```")
	if !found || !ended {
		t.Fatal("README.md shows no output of cprof demo")
	}
	likeness := func(line string) string {
		return strings.Join(strings.Fields(numbers.ReplaceAllString(line, "0")), " ")
	}
	var like []string
	for _, line := range strings.Split(printed, "\n") {
		like = append(like, likeness(line))
	}
	for _, line := range strings.Split("4 counters "+excerpt, "\n") {
		if !slices.Contains(like, likeness(line)) {
			t.Errorf("README.md shows a line that cprof demo does not print: %q", line)
		}
	}
}

var update = flag.Bool("update", false, "rewrite the golden files")

func golden(t *testing.T, name, got string) {
	t.Helper()
	file := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if want, err := os.ReadFile(file); err != nil || got != string(want) {
		t.Errorf("output is not as in %s (%v); compare both, then run go test -update:\n%s",
			file, err, got)
	}
}
