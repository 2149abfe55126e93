package commands

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"github.com/cloudprofiler/cloudprofiler/bench"
	"github.com/cloudprofiler/cloudprofiler/internal/proof"
)

var sampleLog = bench.LogResult{
	Counter_ns: 17, CounterUnordered_ns: 9, Counted: 5, Disturbed: 1,
	Rows: []bench.LogRow{
		{Name: "id", Base: "rdtscp", Writers: 1,
			Ratios: []float64{1.05, 1.05, 1.07, 1.04, 1.08}, NS: []float64{18, 18, 18, 18, 18}},
		{Name: "shared-1", Base: "rdtscp", Writers: 1, Dropped: 7,
			Ratios: []float64{1.7, 1.6, 1.8, 1.9, 1.5}, NS: []float64{28, 28, 28, 28, 28}},
		{Name: "shared-2", Base: "rdtscp", Writers: 2, Absent: "this process may use 1 core"},
	},
	Cold: []bench.ColdRow{
		{Name: "rdtscp-cold", P50_ns: 20, P99_ns: 100, Calls: 10, Middle_ns: 18},
		{Name: "id-cold", P50_ns: 90, P99_ns: 400, Calls: 10, Middle_ns: 90},
	},
}

func TestLogBarsJudge(t *testing.T) {
	want := map[string]proof.Verdict{
		"id-cold": proof.Missed, "id": proof.Reached, "shared-1": proof.Missed,
		"shared-1 dropped": proof.Missed, "shared-2": proof.Absent,
	}
	for _, bar := range logBars(sampleLog) {
		if got := bar.Verdict(); got != want[bar.Name] {
			t.Errorf("%s: %s, want %s", bar.Name, got, want[bar.Name])
		}
		delete(want, bar.Name)
	}
	if len(want) > 0 {
		t.Errorf("no bar for %v", want)
	}
	few := bench.LogResult{Rows: []bench.LogRow{{Name: "id", Ratios: []float64{1, 1, 1, 1}}}}
	if got := logBars(few)[0].Verdict(); got != proof.Absent {
		t.Errorf("four repetitions: %s, want absent", got)
	}
}

func TestLogJSONHasItsFields(t *testing.T) {
	var out bytes.Buffer
	if err := printLogJSON(&out, sampleLog); err != nil {
		t.Fatal(err)
	}
	lines := bytes.Split(out.Bytes(), []byte{'\n'})
	var cold, first map[string]any
	for i, into := range map[int]*map[string]any{0: &cold, len(sampleLog.Cold): &first} {
		if err := json.Unmarshal(lines[i], into); err != nil {
			t.Fatal(err)
		}
	}
	if cold["name"] != "rdtscp-cold" || cold["middle_ns"] != 18.0 {
		t.Errorf("the first line is %v", cold)
	}
	for _, field := range []string{
		"name", "ns_per_op", "ratio_to_counter", "events_per_s", "dropped", "reps",
	} {
		if _, ok := first[field]; !ok {
			t.Errorf("no field %q in %v", field, first)
		}
	}
	if first["ratio_to_counter"] != 1.05 || first["reps"] != 5.0 {
		t.Errorf("%v", first)
	}
}

func TestLogTableNamesWhatIsMissing(t *testing.T) {
	var out bytes.Buffer
	if err := printLogTable(&out, sampleLog, logBars(sampleLog)); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"reached", "MISSED", "not measured: this process may use 1 core", "id-cold",
	} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("no %q in\n%s", want, out.String())
		}
	}
}

func TestBenchLogRefusesTooFewRepetitions(t *testing.T) {
	code, _, errs := cpBench("log", "--repetitions", "4")
	if code != 2 || !strings.Contains(errs, "needs 5") {
		t.Errorf("%d %s", code, errs)
	}
}
