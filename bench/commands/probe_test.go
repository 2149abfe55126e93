package commands

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/cloudprofiler/cloudprofiler/bench/accuracy"
	"github.com/cloudprofiler/cloudprofiler/internal/command"
	"github.com/cloudprofiler/cloudprofiler/internal/proof"
	"github.com/cloudprofiler/cloudprofiler/tscratio"
	"github.com/cloudprofiler/cloudprofiler/vnode"
)

// sampleProbe is a result in which every bar is met.
func sampleProbe() accuracy.Result {
	result := accuracy.Result{
		Machine: accuracy.Machine{Hz: 2_600_000_000, Quantum_cycles: 26, Slack_cycles: 130},
	}
	for _, s := range accuracy.Settings(false) {
		half := 0.45
		if s.Wander == 1*tscratio.PPM {
			half = 0.7
		}
		for _, b := range []accuracy.Bound{accuracy.Windowed, accuracy.Paper} {
			result.Rows = append(result.Rows, accuracy.Row{
				Setting: s, Bound: b, Stamps: accuracy.Kernel, TrueWander: s.Wander / 2,
				HalfWidths_us: []float64{half - 0.1, half, half + 0.1},
				Queries:       60_000, Trains: 50, LoadGbit: 12,
			})
		}
		result.Costs = append(result.Costs, accuracy.Cost{
			Setting: s, Prober: 0.0005, Answerer: 0.0004, Lasted: time.Minute,
		})
	}
	result.Papers = []accuracy.PaperRow{{
		Transport: "zmq", Paper_us: []float64{40}, Ours_us: []float64{20}, Ratios: []float64{2},
		Queries: 100,
	}}
	result.RoundTrips = accuracy.RoundTrips{
		Smallest_us: []float64{6}, Median_us: []float64{7},
		BareSmallest_us: []float64{5.8}, BareMedian_us: []float64{7}, Ratios: []float64{1.03},
	}
	return result
}

func TestProbeBarsJudge(t *testing.T) {
	verdicts := func(result accuracy.Result, loopback string) map[proof.Verdict]int {
		n := map[proof.Verdict]int{}
		for _, bar := range probeBars(result, loopback) {
			n[bar.Verdict()]++
		}
		return n
	}
	good := verdicts(sampleProbe(), "")
	if good[proof.Missed]+good[proof.Absent] != 0 || good[proof.Reached] != 13 {
		t.Errorf("a good result: %v", good)
	}
	for _, tc := range []struct {
		name   string
		spoil  func(*accuracy.Result)
		missed string
	}{
		{"too wide",
			func(r *accuracy.Result) { r.Rows[0].HalfWidths_us = []float64{0.51} },
			"windowed-kernel half-width, w = 0.1 ppm, idle"},
		{"too wide under load",
			func(r *accuracy.Result) { r.Rows[6].HalfWidths_us = []float64{0.81} },
			"windowed-kernel half-width, w = 1 ppm, tcp"},
		{"false",
			func(r *accuracy.Result) { r.Rows[2].Outside = 1 },
			"truths outside of their bounds, idle"},
		{"suspect",
			func(r *accuracy.Result) { r.Rows[4].Verdict = tscratio.Suspect },
			"suspect rows, tcp"},
		{"too few",
			func(r *accuracy.Result) { r.Rows[0].Queries = 39_999 },
			"queries between namespaces, idle"},
		{"slow",
			func(r *accuracy.Result) { r.RoundTrips.Ratios = []float64{1.2} },
			"spinning round trip"},
		{"dear",
			func(r *accuracy.Result) { r.Costs[0].Answerer, r.Costs[1].Answerer = 0.004, 0.004 },
			"two trains a second, answerer"},
	} {
		result := sampleProbe()
		tc.spoil(&result)
		for _, bar := range probeBars(result, "") {
			if want := bar.Name == tc.missed; want != (bar.Verdict() == proof.Missed) {
				t.Errorf("%s: %v", tc.name, bar)
			}
		}
	}
	if got := verdicts(sampleProbe(), "no root"); got[proof.Absent] != 10 {
		t.Errorf("over loopback: %v, want the bars between namespaces absent", got)
	}
	// Errors of the paper's method do not fail any bar.
	result := sampleProbe()
	result.Rows[1].Outside, result.Rows[1].HalfWidths_us = 50_000, []float64{99}
	if got := verdicts(result, ""); got[proof.Missed] != 0 {
		t.Errorf("the paper's row is judged: %v", got)
	}
}

func TestProbeVerdict(t *testing.T) {
	if err := probeVerdict(sampleProbe(), 1); err != nil {
		t.Error(err)
	}
	for _, tc := range []struct {
		spoil   func(*accuracy.Result)
		partial bool
	}{
		{func(r *accuracy.Result) { r.Rows[0].Outside = 1 }, false},
		{func(r *accuracy.Result) { r.Papers[0].OursBeyond = 1 }, false},
		{func(r *accuracy.Result) { r.Rows[0].Verdict = tscratio.Suspect }, true},
		{func(r *accuracy.Result) { r.Left = []string{"round trips"} }, true},
		{func(r *accuracy.Result) { r.RoundTrips.Absent = "one CPU" }, true},
	} {
		result := sampleProbe()
		tc.spoil(&result)
		err := probeVerdict(result, 1)
		if err == nil || errors.Is(err, command.ErrPartial) != tc.partial {
			t.Errorf("%v, want partial %v", err, tc.partial)
		}
	}
}

func TestProbeJSONHasItsFields(t *testing.T) {
	var out bytes.Buffer
	if err := printProbeJSON(&out, sampleProbe()); err != nil {
		t.Fatal(err)
	}
	names := map[string]int{}
	for _, text := range strings.Split(strings.TrimSpace(out.String()), "\n") {
		var line map[string]any
		if err := json.Unmarshal([]byte(text), &line); err != nil {
			t.Fatal(err)
		}
		name := line["name"].(string)
		names[name]++
		if name == "round-trip" || name == "cost" {
			continue
		}
		for _, field := range []string{
			"w_ppm", "verdict", "load", "half_width_us_median", "queries", "outside",
		} {
			if _, ok := line[field]; !ok {
				t.Errorf("no field %q in %s", field, text)
			}
		}
	}
	for name, want := range map[string]int{
		"windowed-kernel": 4, "plain-zmq": 1, "round-trip": 1, "cost": 4,
	} {
		if names[name] != want {
			t.Errorf("%d rows %q, want %d", names[name], name, want)
		}
	}
	var first probeLine
	text, _, _ := bytes.Cut(out.Bytes(), []byte{'\n'})
	if err := json.Unmarshal(text, &first); err != nil {
		t.Fatal(err)
	}
	if first.W_ppm != 0.1 || first.Verdict != "consistent" || first.Load != "idle" ||
		first.HalfWidth != 0.45 || first.Queries != 60_000 || first.True_ppm != 0.05 {
		t.Errorf("%+v", first)
	}
}

func TestProbeTableSaysWhatIsMeasured(t *testing.T) {
	result := sampleProbe()
	walk := result.Rows[0]
	walk.Shape, walk.Exchanges, walk.PerSecond, walk.Failed = vnode.Walk, 1, 6, 2
	result.Rows = append(result.Rows, walk)
	var out bytes.Buffer
	flags := benchProbeFlags{seconds: 25, seed: 7}
	if err := printProbeTable(&out, result, probeBars(result, ""), flags); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"two network namespaces", "--seed 7", "under 12 Gbit/s of TCP", "as a random walk",
		"2 of 52 trains came to nothing", "evenly spaced single", "assumes that rates never move",
		"plain-zmq", "bare system calls", "reached",
	} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("no %q in\n%s", want, out.String())
		}
	}
}

func TestProbePlots(t *testing.T) {
	result := sampleProbe()
	for _, s := range accuracy.Settings(false)[:2] {
		result.Series = append(result.Series, accuracy.Series{
			Setting: s, Stamps: accuracy.Kernel,
			Points: []accuracy.Point{{Lo_us: -0.4, Hi_us: 0.4}, {At_s: 1, Lo_us: -0.5, Hi_us: 0.3}},
		})
		result.Declared = append(result.Declared, accuracy.Declared{
			Setting: s, Stamps: accuracy.User, HalfWidth_us: []float64{7, 8},
			Wanders: []tscratio.Wander{100 * tscratio.PPB, 1 * tscratio.PPM},
		})
	}
	dir := filepath.Join(t.TempDir(), "plots")
	if err := writeProbePlots(dir, result); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string][]string{
		"bound-over-time.svg": {"w = 0.1 ppm declared", "w = 1 ppm declared", "truth"},
		"half-widths.svg": {"idle link", "link saturated by TCP",
			"windowed, kernel stamps, w = 0.1 ppm", "ZeroMQ"},
		"price-of-wander.svg": {"declared wander", "user stamps"},
	} {
		text, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		for _, w := range append(want, "two network namespaces", "made by: cp-bench probe") {
			if !strings.Contains(string(text), w) {
				t.Errorf("no %q in %s", w, name)
			}
		}
	}
	// A result without sessions has nothing to show.
	empty := t.TempDir()
	if err := writeProbePlots(empty, accuracy.Result{}); err != nil {
		t.Error(err)
	}
	if files, _ := os.ReadDir(empty); len(files) != 0 {
		t.Errorf("%d plots of nothing", len(files))
	}
}

func TestBenchProbeRefuses(t *testing.T) {
	for _, args := range [][]string{{"--seconds", "5"}, {"--queries", "0"}} {
		code, _, errs := cpBench(append([]string{"probe"}, args...)...)
		if code != 2 || !strings.Contains(errs, args[0]) {
			t.Errorf("%v: %d %s", args, code, errs)
		}
	}
	if _, out, _ := cpBench("--help"); strings.Contains(out, "probe-peer") {
		t.Error("help lists the other end among the commands")
	}
}
