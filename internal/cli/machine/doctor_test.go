package machine

import (
	"bytes"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/cloudprofiler/cloudprofiler/host"
	"github.com/cloudprofiler/cloudprofiler/internal/command"
	"github.com/cloudprofiler/cloudprofiler/internal/oscillator"
	"github.com/cloudprofiler/cloudprofiler/tscratio"
)

func TestDoctorVerdict(t *testing.T) {
	report := func(verdicts ...host.Verdict) (r host.Report) {
		for _, v := range verdicts {
			r.Findings = append(r.Findings, host.Finding{Verdict: v})
		}
		return r
	}
	if err := doctorVerdict(report(host.Fit, host.Warning)); err != nil {
		t.Errorf("a warning: %v", err)
	}
	if err := doctorVerdict(report(host.Fit, host.Unknown)); !errors.Is(err, command.ErrPartial) {
		t.Errorf("something unknown: %v", err)
	}
	if err := doctorVerdict(report(host.Unfit, host.Fit)); err == nil ||
		errors.Is(err, command.ErrPartial) {
		t.Errorf("unfit: %v", err)
	}
}

func TestDoctorPrints(t *testing.T) {
	code, out, _ := cprof("doctor", "--json")
	var report host.Report
	if err := json.Unmarshal([]byte(out), &report); err != nil || len(report.Findings) == 0 ||
		code == command.Usage {
		t.Errorf("doctor --json: %d, %v\n%s", code, err, out)
	}
}

func TestDoctorWanderSaysWhatItCannotSee(t *testing.T) {
	same := oscillator.Result{Clock: oscillator.Clock{Name: "RAW", Kind: oscillator.Same,
		Why: "because"}, Looks: 600, Bracket_ns: 70}
	steady := oscillator.Result{Clock: oscillator.Clock{Name: "card", Kind: oscillator.Independent},
		Refuted: 20 * tscratio.PPB, Unseen: 10 * tscratio.PPB}
	shaky := steady
	shaky.Refuted = 3 * tscratio.PPM
	for name, tc := range map[string]struct {
		results []oscillator.Result
		verdict host.Verdict
		advice  float64
		want    string
	}{
		"nothing to see": {[]oscillator.Result{same}, host.Unknown, 1, "cannot see its own wander"},
		"steady": {[]oscillator.Result{same, steady}, host.Fit, 0.1,
			"refutes wanders below 0.02 ppm"},
		"shaky": {[]oscillator.Result{steady, shaky}, host.Warning, 20, "--wander 20ppm"},
	} {
		w := newWanderReport(tc.results, []string{"no PTP clock"}, 60)
		var out bytes.Buffer
		if err := w.print(&out); err != nil {
			t.Fatal(err)
		}
		if w.Verdict != tc.verdict || w.Advice_ppm != tc.advice ||
			!strings.Contains(out.String(), tc.want) ||
			!strings.Contains(out.String(), "left out: no PTP clock") {
			t.Errorf("%s: %+v\n%s", name, w, out.String())
		}
	}
	for _, args := range [][]string{{"doctor", "--wander", "--seconds", "5"},
		{"doctor", "--seconds", "60"}} {
		if code, _, stderr := cprof(args...); code != command.Usage {
			t.Errorf("%v: exit code %d: %s", args, code, stderr)
		}
	}
}
