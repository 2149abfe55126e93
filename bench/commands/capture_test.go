package commands

import (
	"encoding/json"
	"testing"

	"github.com/cloudprofiler/cloudprofiler/bench"
	"github.com/cloudprofiler/cloudprofiler/internal/privileged"
	"github.com/cloudprofiler/cloudprofiler/internal/proof"
)

func TestCaptureBarsJudge(t *testing.T) {
	good := bench.CaptureTruth{Calls: 100, Captured: 98, Sent: 50, Matched: 48}
	for name, c := range map[string]struct {
		row  bench.CaptureRow
		want int // bars that are missed
	}{
		"cheap":       {bench.CaptureRow{Name: "flood", Changes: []float64{100, 140, 900}}, 0},
		"dear":        {bench.CaptureRow{Name: "flood", Changes: []float64{100, 160, 900}}, 1},
		"more CPU":    {bench.CaptureRow{Name: "redis-10000", Cores: []float64{0.06}}, 1},
		"slower":      {bench.CaptureRow{Name: "nginx-limit", Changes: []float64{0.03}}, 1},
		"busy agent":  {bench.CaptureRow{Name: "agent-100000", AgentCores: 0.2}, 1},
		"counted":     {bench.CaptureRow{Name: "truth", Truth: good, Lost: 2}, 0},
		"not counted": {bench.CaptureRow{Name: "truth", Truth: good, Lost: 1}, 1},
		"matched wrong": {bench.CaptureRow{Name: "truth",
			Truth: bench.CaptureTruth{Sent: 1, Wrong: 1}}, 1},
	} {
		missed := 0
		for _, bar := range captureBars([]bench.CaptureRow{c.row}) {
			if bar.Verdict() == proof.Missed {
				missed++
			}
		}
		if missed != c.want {
			t.Errorf("%s: %d bars are missed", name, missed)
		}
	}
}

// Every call of another process is captured, and every match is right. With --empty, nothing is
// captured, so there is nothing to compare.
func TestPrivilegedCaptureMissesNothing(t *testing.T) {
	privileged.Need(t)
	capture := func(flag string) (line captureLine) {
		t.Helper()
		code, out, errs := cpBench("capture", "--rows", "truth", "--messages", "20000", "--json",
			flag)
		if err := json.Unmarshal([]byte(out), &line); code != 0 || err != nil && out != "" {
			t.Fatalf("%s: code %d, %v: %s%s", flag, code, err, out, errs)
		}
		return line
	}
	for _, flag := range []string{"--light=false", "--light"} {
		line := capture(flag)
		if line.Calls != 20_000 || line.Calls-line.Captured > line.Lost || line.Wrong > 0 ||
			line.Sent-line.Matched > 2*line.Lost {
			t.Errorf("%s: %+v", flag, line)
		}
	}
	if line := capture("--empty"); line.Name != "" {
		t.Errorf("%+v", line)
	}
}
