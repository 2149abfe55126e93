package fleet

import (
	"encoding/json"
	"math"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/cloudprofiler/cloudprofiler/control"
	"github.com/cloudprofiler/cloudprofiler/internal/command"
	"github.com/cloudprofiler/cloudprofiler/internal/command/commandtest"
	"github.com/cloudprofiler/cloudprofiler/watch"
)

// aPicture returns a picture in which every field is set.
func aPicture() *watch.Picture {
	long := strings.Repeat("long-name-of-an-operator.", 4)
	span := func(from, to string, lo, hi int64) watch.Span {
		return watch.Span{
			From: from, To: to, Tuples: 4912, To_s: watch.Rate{Lo: 99_871.2, Hi: 100_204.9},
			P50: watch.Interval{Lo_cycles: lo, Hi_cycles: hi},
			P99: watch.Interval{Lo_cycles: 10 * lo, Hi_cycles: 11 * hi},
		}
	}
	whole := span("source/send", "sink/recv", 5_000_000, 5_020_000)
	whole.Whole = true
	estimate := span("source/send", "parser/start", 2_000_000, 2_600_000)
	estimate.Estimate = true
	sampled := span("parser/start", "parser/end", 400, 590)
	sampled.Some = "xoy x=2 y=16"
	withheld := watch.Span{From: "source/send", To: "parser/end", LeftOut: 7, Some: "xoy x=2 y=16"}
	unknown := watch.Span{
		From: "parser/end", To: "sink/recv", Unknown: 12, To_s: watch.Rate{Lo: 1, Hi: 2},
	}
	return &watch.Picture{
		Run: "tuesday", Phase: "open", Window_ns: 5e9, Age_ns: 412_345_678,
		Reference: watch.Reference{Node: "alpha", Lo_hz: 2_596_100_000, Hi_hz: 2_596_101_000,
			Clock: "CLOCK_MONOTONIC_RAW"},
		OneIn: 128, Tuples: 5013,
		Spans: []watch.Span{
			whole, estimate, span(long+"/recv", long+"/send", 900_000, 910_000), sampled, withheld,
			unknown,
		},
		Points: []watch.Point{
			{Name: "parser/start", Events: 500_123, Rate: watch.Rate{Lo: 99_871.2, Hi: 100_204.9},
				Handlers: []string{"buffered", "xoy x=2 y=16"}, Dropped: 17},
			{Name: "sink/count", Events: 12, Rate: watch.Rate{Lo: 2.4, Hi: 2.4},
				Handlers: []string{"counter period=1s"}},
			{Name: long + "/recv", Handlers: []string{"buffered"}},
		},
		Nodes: []watch.Node{
			{Name: "alpha", Age_ns: 1e8, Rate: watch.Rate{Lo: 1000.5, Hi: 1001}},
			{Name: "beta", Age_ns: -1, State: "silent for 2s: paths may pass it unseen"},
		},
		Notes: []string{
			"beta: silent for 2s: paths may pass it unseen",
			"! an estimate: the data contradict the declared wander, or come close to it, and " +
				"this is a note that needs more than one line",
		},
	}
}

func TestPictureAsText(t *testing.T) {
	for name, width := range map[string]int{"top-120.txt": maxColumns, "top-80.txt": 80} {
		lines := pictureLines(aPicture(), width)
		for _, line := range lines {
			if n := utf8.RuneCountInString(line); n > width {
				t.Errorf("%s: %d columns: %s", name, n, line)
			}
		}
		got := strings.Join(lines, "\n") + "\n"
		commandtest.Golden(t, name, got)
	}
}

// A rate that is not known yet is not shown as a number.
func TestRateAsText(t *testing.T) {
	for want, r := range map[string]watch.Rate{
		"0": {}, "2…4": {Lo: 2.5, Hi: 3.5}, "?": {Hi: math.MaxFloat64},
		"1,000…?": {Lo: 1000.5, Hi: math.MaxFloat64},
	} {
		if got := rateText(r); got != want {
			t.Errorf("%+v is shown as %s, want %s", r, got, want)
		}
	}
	p := &watch.Picture{Age_ns: -1, Points: []watch.Point{{
		Name: "a/x", Rate: watch.Rate{Hi: math.MaxFloat64},
	}}}
	got := strings.Join(pictureLines(p, maxColumns), "\n")
	if !strings.Contains(got, "a/x    ≥ 0     ?         ≥ 0") || strings.Contains(got, "agents;") {
		t.Errorf("the picture is\n%s", got)
	}
}

// A terminal gets no more lines than it can show, and no control characters from a node.
func TestFrame(t *testing.T) {
	got := framePicture([]string{"a\x1b[2J", "b", "c", "d"}, 3)
	want := "\x1b[H" + `a\u001b[2J` + "\x1b[K\r\n" + "b\x1b[K\r\n" +
		"… 2 more lines: enlarge the window\x1b[K\r\n" + "\x1b[J"
	if got != want {
		t.Errorf("%q, want %q", got, want)
	}
	if got := framePicture([]string{"a", "b"}, 2); strings.Contains(got, "more") {
		t.Errorf("%q", got)
	}
}

// If there is nothing to show, cprof top says why.
func TestTopSaysWhyItShowsNothing(t *testing.T) {
	f := startAFleet(t, "alpha", "beta")
	f.want(command.Failed, "no node is registered: start cp-agent", "top", "--once")
	f.join("alpha")
	out := f.want(command.Failed, "no node has an agent that can be watched", "top", "--once",
		"--window", "1s")
	if !strings.Contains(out, "no run is open") || !strings.Contains(out, "alpha: tsc-client") {
		t.Errorf("top says %s", out)
	}
	f.join("beta", control.CanFiles, control.CanRun)
	f.want(command.Failed, "beta: its agent is too old to be watched (tsc-client devel)", "top",
		"--once", "--window", "1s")
	f.want(command.Usage, "want 1s to 30s", "top", "--window", "1ms")
	var p watch.Picture
	text := f.want(command.Failed, "", "top", "--once", "--window", "1s", "--json")
	line, _, _ := strings.Cut(text, "\n")
	if err := json.Unmarshal([]byte(line), &p); err != nil || len(p.Nodes) != 2 || p.Spans == nil {
		t.Errorf("%s: %v", line, err)
	}
}
