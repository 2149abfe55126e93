package commands

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"github.com/cloudprofiler/cloudprofiler/bench"
	"github.com/cloudprofiler/cloudprofiler/internal/command"
	"github.com/cloudprofiler/cloudprofiler/internal/proof"
)

func TestGenBarsJudge(t *testing.T) {
	rows := []bench.GenRow{
		{Name: "single", Figures: []float64{0.8, 0.75, 0.9, 0.8, 0.8},
			Rates: []float64{1, 1, 1, 1, 1}, Base: []float64{1, 1, 1, 1, 1}},
		{Name: "batched", Figures: []float64{3, 3, 3, 3, 3}, Rates: []float64{3e6}, Wrong: 2},
		{Name: "schedule", Figures: []float64{99.5, 99.2, 99.9, 99.5, 99.5}, Rates: []float64{1}},
		{Name: "factory", Absent: "no reason"},
	}
	want := map[string]proof.Verdict{
		"single": proof.Reached, "batched": proof.Missed,
		"schedule": proof.Reached, "factory": proof.Absent,
		"single lost, doubled or out of order":       proof.Reached,
		"batched lost, doubled or out of order":      proof.Missed,
		"schedule lost, doubled or out of order":     proof.Reached,
		"late without a cause, or not accounted for": proof.Reached,
	}
	bars := genBars(rows)
	for _, bar := range bars {
		if got := bar.Verdict(); got != want[bar.Name] {
			t.Errorf("%s: %s, want %q", bar.Name, got, want[bar.Name])
		}
		delete(want, bar.Name)
	}
	if len(want) > 0 {
		t.Errorf("no bar for %v", want)
	}
	var out bytes.Buffer
	if err := printGenTable(&out, rows, bars); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"not measured: no reason", "MISSED"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("no %q in\n%s", want, &out)
		}
	}
	out.Reset()
	if err := printGenJSON(&out, rows); err != nil {
		t.Fatal(err)
	}
	var first map[string]any
	text, _, _ := bytes.Cut(out.Bytes(), []byte{'\n'})
	if err := json.Unmarshal(text, &first); err != nil {
		t.Fatal(err)
	}
	if first["name"] != "single" || first["figure"] != 0.8 || first["reps"] != 5.0 {
		t.Errorf("%v", first)
	}
}

func TestGenRefusesWrongUsage(t *testing.T) {
	for line, says := range map[string]string{
		"gen --repetitions 1": "needs 5",
		"gen --rows nosuch":   "nosuch",
		"gen --tuples 1":      "--tuples",
	} {
		code, _, errs := cpBench(strings.Fields(line)...)
		if code != command.Usage || !strings.Contains(errs, says) {
			t.Errorf("cp-bench %s: code %d, says %q, want %d and %q",
				line, code, errs, command.Usage, says)
		}
	}
}
