package commands

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/cloudprofiler/cloudprofiler/internal/simrun"
)

// The output has the figures under the names that scripts read. With proven bounds, fewer pairs of
// a run's events have an unknown order than with clocks that may differ by 1 ms.
func TestBenchReplay(t *testing.T) {
	dir := t.TempDir()
	if err := simrun.Chain(1, dir, "run", 3, 500, 10_000); err != nil {
		t.Fatal(err)
	}
	run := filepath.Join(dir, "run")
	code, out, errs := cpBench("replay", "--events", "200", "--json", "--run", run)
	if code != 0 {
		t.Fatalf("exit code %d: %s", code, errs)
	}
	var line replayLine
	if err := json.Unmarshal([]byte(out), &line); err != nil {
		t.Fatal(err)
	}
	if f := line.Free; f == nil || f.Run != run || f.Events != 1500 || f.Bound_ns <= 0 ||
		f.Ours*replayFewer > f.Millisecond || f.Millisecond == 0 {
		t.Errorf("free pairs %+v", f)
	}
	for _, r := range line.Regions {
		if len(r.Offsets) != len(r.Delays_us) || len(r.Offsets[0]) != len(r.Rates_hz) {
			t.Errorf("region %+v", r)
		}
	}
	for _, v := range line.Varied {
		if v.Broken != 0 || v.Offsets < 1 || v.Events < 200 {
			t.Errorf("%+v", v)
		}
	}
	if len(line.Regions) != 6 || len(line.Varied) < 15 {
		t.Errorf("%d regions, %d settings", len(line.Regions), len(line.Varied))
	}

	plots := filepath.Join(dir, "plots")
	code, out, _ = cpBench("replay", "--events", "100", "--plots", plots)
	if code != 0 || !strings.Contains(out, "feasible (#: at most 8") {
		t.Errorf("exit code %d: %s", code, out)
	}
	for name, want := range map[string]string{
		"replay-offsets.svg": ">skew, µs<", "replay-regions.svg": ">not feasible<",
	} {
		text, err := os.ReadFile(filepath.Join(plots, name))
		if err != nil || !strings.Contains(string(text), want) {
			t.Errorf("%s: %v, want %q", name, err, want)
		}
	}
	if code, _, errs = cpBench("replay", "--events", "0"); code != 2 {
		t.Errorf("exit code %d: %s", code, errs)
	}
	if code, _, errs = cpBench("replay", "--events", "1", "--run", dir); code != 1 {
		t.Errorf("no run: exit code %d: %s", code, errs)
	}
}
