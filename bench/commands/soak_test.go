package commands

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/cloudprofiler/cloudprofiler/analysis"
	"github.com/cloudprofiler/cloudprofiler/examples/demo"
	"github.com/cloudprofiler/cloudprofiler/internal/command"
	"github.com/cloudprofiler/cloudprofiler/internal/proof"
)

// sampleSoak returns a soak with 1,000 tuples a minute. One of its processes does not grow, and the
// other keeps 20 bytes of each tuple. In one of the minutes, the bound is wider.
func sampleSoak(minutes int) *demo.Soak {
	s := &demo.Soak{Every: time.Minute, Processes: []string{"agent A", "job A"}}
	s.Nodes = make([]demo.NodeFacts, 1)
	s.Tuples, s.Answer = 1000*minutes, &analysis.Answer{}
	s.Answer.Reference = analysis.Reference{FrequencyLo_hz: 1e9, FrequencyHi_hz: 1e9}
	for i := range minutes {
		s.Samples = append(s.Samples, demo.Sample{
			Private_bytes: []int64{10e6, 20e6 + 20_000*int64(i)},
			Disk_bytes:    2e6 * int64(i+1),
		})
		p := demo.Period{Durations: 14_000, Between: 8000, HalfWidth_cycles: 1000}
		if i == minutes/2 {
			p.HalfWidth_cycles = 1600
		}
		s.Periods = append(s.Periods, p)
	}
	return s
}

func TestSoakBarsJudge(t *testing.T) {
	want := map[string]proof.Verdict{
		"durations checked against the truth":          proof.Reached,
		"outside of their bound":                       proof.Missed,
		"tuples and events lost":                       proof.Missed,
		"soaks with a relation that is not consistent": proof.Reached,
		"growth in the second half, agent A":           proof.Reached,
		"growth in the second half, job A":             proof.Missed,
		"bound of the widest period":                   proof.Missed,
		"bound of the second half":                     proof.Reached,
	}
	s := sampleSoak(40)
	s.Lost, s.Periods[3].Outside = 1, 2
	for _, bar := range soakBars(s) {
		if got := bar.Verdict(); got != want[bar.Name] {
			t.Errorf("%s, want %s", bar, want[bar.Name])
		}
		delete(want, bar.Name)
	}
	if len(want) > 0 {
		t.Errorf("no bar for %v", want)
	}
	for _, bar := range soakBars(sampleSoak(1)) {
		absent := strings.HasPrefix(bar.Name, "growth") || strings.HasPrefix(bar.Name, "bound")
		if (bar.Verdict() == proof.Absent) != absent {
			t.Errorf("of one minute: %s", bar)
		}
	}
}

func TestSoakIsPrinted(t *testing.T) {
	s := sampleSoak(60)
	table := soakTable(s, true)
	rows, row := strings.Count(table, "\n| "), "| 5m0s | 10.0 | 20.1 | 10.0 | 1.000 | 70000 | 0 |"
	if rows != 13 || !strings.Contains(table, row) {
		t.Errorf("%d rows, want a head and 12:\n%s", rows, table)
	}
	var out bytes.Buffer
	var line soakLine
	if err := printSoakJSON(&out, s); err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(out.Bytes(), &line); err != nil {
		t.Fatal(err)
	}
	if line.Tuples != 60_000 || len(line.Samples) != 60 || line.Samples[29].HalfWidth_us != 1 {
		t.Errorf("%d tuples, %d samples", line.Tuples, len(line.Samples))
	}
}

func TestSoakUsage(t *testing.T) {
	for _, args := range [][]string{
		{"--duration", "1s"}, {"--every", "2h"}, {"--rate", "1"}, {"--load", "-1"}, {"x"},
	} {
		var out, stderr bytes.Buffer
		code := Run(t.Context(), append([]string{"soak"}, args...), &out, &stderr)
		if code != command.Usage {
			t.Errorf("%q: exit code %d, %s", args, code, &stderr)
		}
	}
}

// In the second half of a soak, a daemon may grow by 4 bytes a tuple and 1,000 bytes for each train
// that it keeps. A process of the job may grow by 16 bytes a tuple.
func TestSoakGrowthIsJudgedByWhatIsKept(t *testing.T) {
	s := sampleSoak(40)
	s.Trains, s.Nodes = 8000, make([]demo.NodeFacts, 4)
	limits := map[string]float64{"coordinator": 0.848, "agent A": 1.08, "job A": 0.32}
	for process, want := range limits {
		if got := soakGrowth_MB(s, process); got != want {
			t.Errorf("%s may grow by %v MB, want %v", process, got, want)
		}
	}
}
