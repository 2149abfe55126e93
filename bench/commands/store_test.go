package commands

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"github.com/cloudprofiler/cloudprofiler/bench"
	"github.com/cloudprofiler/cloudprofiler/internal/proof"
)

var sampleStore = bench.StoreResult{
	Rows: []bench.StoreRow{
		{Name: "loop/seq/q1", BytesPerEvent: 0.3, EntropyBytes: 0.27,
			Encode: []float64{3.1, 3.2, 3.3, 3.0, 3.4}, Decode: []float64{2.9, 2.8, 2.9, 2.9, 2.9},
			Hurried: []float64{3, 3, 3, 3, 3}},
		{Name: "bursts/seq/q26", BytesPerEvent: 0.4, EntropyBytes: 0.2,
			Encode: []float64{2.1, 2.1, 2.1, 2.1, 2.1}, Decode: []float64{2.1, 2.1, 2.1, 2.1, 2.1},
			Hurried: []float64{2.1, 2.1, 2.1, 2.1, 2.1}},
		{Name: "loop/random/q1", BytesPerEvent: 8, EntropyBytes: 8,
			Encode: []float64{1, 1, 1, 1, 1}, Decode: []float64{1, 1, 1, 1, 1},
			Hurried: []float64{1.9, 1.9, 1.9, 1.9, 1.9}},
	},
	Sustained: bench.SustainedRow{
		Ratios: []float64{1.2, 1.1, 1.3, 1.2, 1.2}, NS: []float64{20, 20, 20, 20, 20},
		Disturbed: 2, Events: 100, Dropped: 1, Logged: 98,
	},
}

func TestStoreBarsJudge(t *testing.T) {
	want := map[string]proof.Verdict{
		"loop/seq/q1 size":         proof.Reached,
		"loop/seq/q1 encode":       proof.Reached,
		"loop/seq/q1 decode":       proof.Missed,
		"bursts/seq/q26 size":      proof.Missed,
		"bursts/seq/q26 encode":    proof.Reached,
		"bursts/seq/q26 decode":    proof.Reached,
		"loop/random/q1 size":      proof.Reached,
		"loop/seq/q1 hurried":      proof.Reached,
		"bursts/seq/q26 hurried":   proof.Reached,
		"loop/random/q1 hurried":   proof.Missed,
		"sustained":                proof.Reached,
		"sustained dropped":        proof.Missed,
		"sustained not in the log": proof.Missed,
	}
	for _, bar := range storeBars(sampleStore, true) {
		if got := bar.Verdict(); got != want[bar.Name] {
			t.Errorf("%s: %s, want %s", bar.Name, got, want[bar.Name])
		}
		delete(want, bar.Name)
	}
	if len(want) > 0 {
		t.Errorf("no bar for %v", want)
	}
	few := sampleStore
	few.Sustained.Ratios = few.Sustained.Ratios[:4]
	bars := storeBars(few, true)
	got := bars[len(bars)-3]
	if got.Verdict() != proof.Absent || !strings.Contains(got.Absent, "4 of 6") {
		t.Errorf("four seconds: %v", got)
	}
	bars = storeBars(bench.StoreResult{}, true)
	if got := bars[0]; got.Verdict() != proof.Absent || !strings.Contains(got.Absent, "1 core") {
		t.Errorf("one core: %v", got)
	}
	if bars := storeBars(bench.StoreResult{}, false); len(bars) > 0 {
		t.Errorf("without the last row: %v", bars)
	}
}

func TestStoreJSONHasItsFields(t *testing.T) {
	var out bytes.Buffer
	if err := printStoreJSON(&out, sampleStore, true); err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSpace(out.String()), "\n")
	for i, fields := range map[int][]string{
		0: {"name", "gb_per_s_encode", "gb_per_s_decode", "bytes_per_event", "entropy_bytes",
			"reps"},
		len(lines) - 1: {"name", "ratio_to_counter", "dropped", "reps"},
	} {
		var line map[string]any
		if err := json.Unmarshal([]byte(lines[i]), &line); err != nil {
			t.Fatal(err)
		}
		for _, field := range fields {
			if _, ok := line[field]; !ok {
				t.Errorf("no field %q in %v", field, line)
			}
		}
		if i == 0 {
			continue
		}
		if line["name"] != "sustained" ||
			line["ratio_to_counter"] != 1.2 || line["dropped"] != 1.0 {
			t.Errorf("the last row is %v", line)
		}
	}
}

func TestStoreTableShowsVerdicts(t *testing.T) {
	var out bytes.Buffer
	if err := printStoreTable(&out, sampleStore, storeBars(sampleStore, true), true); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"  decode MISSED\n", "  size MISSED\n", "  hurried MISSED\n", "1.200 × bare rdtscp",
		"1 of 100 events dropped", "2 disturbed",
	} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("no %q in\n%s", want, out.String())
		}
	}
}

func TestBenchStoreRefusesWhatTellsNothing(t *testing.T) {
	for _, args := range [][]string{{"--repetitions", "4"}, {"--sustained", "3s"}} {
		code, _, errs := cpBench(append([]string{"store"}, args...)...)
		if code != 2 || !strings.Contains(errs, "needs 5") {
			t.Errorf("%v: %d %s", args, code, errs)
		}
	}
}
