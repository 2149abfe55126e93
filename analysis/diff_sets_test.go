package analysis

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/cloudprofiler/cloudprofiler/internal/seed"
	"github.com/cloudprofiler/cloudprofiler/internal/simrun"
)

// A change has a verdict only if the durations of both sides are those of the same tuples.
// Otherwise the reason is given. The worker is slow for three of four tuples. If one run samples
// only slow tuples, and the other run only fast ones, the worker seems to have changed.
func TestVerdictOnlyOfTheSameTuples(t *testing.T) {
	seed.NotUnderRace(t, "TestAnswersEqualOracle analyzes side by side too")
	rng := seed.Random(t)
	const tuples = 8000
	type harm func(channels []simrun.Channel)
	sample := func(handler string, keeps func(id uint64) bool, at ...int) harm {
		return func(channels []simrun.Channel) {
			for _, i := range at {
				channels[i].Handler = handler
				channels[i].Records = slices.DeleteFunc(channels[i].Records,
					func(r simrun.Record) bool { return !keeps(r.ID) })
			}
		}
	}
	quarter := func(id uint64) bool { return id%4 == 0 }
	rest := func(id uint64) bool { return id%4 != 0 }
	answer := func(name string, work uint64, harm harm) *Answer {
		channels := []simrun.Channel{{Name: "source/send"}, {Name: "worker/recv", Node: 1},
			{Name: "worker/send", Node: 1}, {Name: "sink/recv"}}
		for id := range uint64(tuples) {
			at := simrun.Hz + id*2_000_000
			for i := range channels {
				channels[i].Records = append(channels[i].Records, simrun.Record{Time: at, ID: id})
				at += 50_000 + rng.Uint64N(10_000)
				if i == 1 && id%4 != 0 {
					at += work
				}
			}
		}
		if harm != nil {
			harm(channels)
		}
		parent := t.TempDir()
		err := simrun.Write(rng, parent, name, simrun.Nodes(rng, 2), channels)
		if err != nil {
			t.Fatal(err)
		}
		if name == "missing" {
			if err := os.RemoveAll(filepath.Join(parent, name, "logs", "B")); err != nil {
				t.Fatal(err)
			}
		}
		a, err := Run(context.Background(), openRun(t, parent, name), Options{})
		if err != nil {
			t.Fatal(err)
		}
		a.Reference.FrequencyLo_hz, a.Reference.FrequencyHi_hz = simrun.Hz, simrun.Hz
		return a
	}
	whole := answer("whole", 1_000_000, nil)
	slower := answer("slower", 2_000_000, nil)
	worker := []int{1, 2}
	sampled := answer("sampled", 1_000_000, sample("xoy x=1 y=4", quarter, worker...))
	slowsampled := answer("slowsampled", 2_000_000, sample("xoy x=3 y=4", rest, worker...))
	for name, test := range map[string]struct {
		before, after *Answer
		// The verdicts about p50: of the worker's span, and of the span from end to end. An empty
		// verdict means that there is no such row.
		worker, whole Verdict
		why           string
	}{
		"whole": {whole, slower, Slower, Slower, ""},
		"sampled against whole": {whole, sampled, Undecided, Same,
			`run "whole" has all tuples, and run "sampled" has the tuples of xoy`},
		"whole against sampled": {sampled, whole, Undecided, Same,
			`the tuples of xoy x=1 y=4 at worker/recv, worker/send, and`},
		"by two rules": {sampled, slowsampled, Undecided, Slower, "xoy x=3 y=4 at worker/recv"},
		"by one rule": {answer("again", 1_000_000, sample("xoy x=3 y=4", rest, worker...)),
			slowsampled, Slower, Slower, ""},
		"by no rule by id": {whole, answer("some", 1_000_000,
			sample("downsample n=4", quarter, worker...)), Undecided, Same,
			`run "some" lacks tuples: worker/recv keeps only downsample n=4`},
		"by no rule by id on both sides": {
			answer("some", 1_000_000, sample("downsample n=4", quarter, worker...)),
			answer("others", 1_000_000, sample("downsample n=4", quarter, worker...)),
			Undecided, Same, `run "some" lacks tuples`},
		"lossy": {whole, answer("lossy", 1_000_000, func(channels []simrun.Channel) {
			channels[2].Dropped = 5
		}), Undecided, Same, `run "lossy" lacks tuples: worker/send dropped events`},
		"a sampled sink": {whole, answer("ends", 1_000_000,
			sample("xoy x=1 y=4", quarter, 3)), Same, Undecided, ""},
		"missing": {whole, answer("missing", 1_000_000, nil), Undecided, Undecided,
			`no run of the second side has it, but run "missing" lacks tuples`},
	} {
		changes, err := diffOf(test.before, test.after)
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range changes {
			if c.Verdict == Gone || c.Verdict == New {
				t.Errorf("%s: logs of both lack tuples, and a span is %+v", name, c)
			}
			if c.Kind == "gap" && test.why != "" &&
				(c.Verdict != Undecided || !strings.Contains(c.Why, "worker/recv")) {
				t.Errorf("%s: a gap is %+v", name, c)
			}
			if c.Percent == 99 {
				continue
			}
			want := Verdict("")
			switch c.From + " " + c.To {
			case "worker/recv worker/send":
				want = test.worker
				if test.why != "" && !strings.Contains(c.Why, test.why) {
					t.Errorf("%s: %q, want %q", name, c.Why, test.why)
				}
			case "source/send sink/recv":
				if want = test.whole; c.Kind == "gap" {
					continue
				}
			default:
				continue
			}
			if c.Verdict != want || (c.Verdict == Undecided) != (c.Why != "") || c.Needs != nil {
				t.Errorf("%s: %+v, want %q", name, c, want)
			}
		}
	}
}

// It is known whether a tuple waited only if the logs of all branches have its events. It is known
// where the tuple began and ended only if the logs of all points before and after have its events.
func TestPointsThatDecideASet(t *testing.T) {
	answer := func(kept ...Kept) *Answer {
		a := &Answer{Run: "x", Spans: []Span{
			{From: "left", To: "sink", Kind: "waiting"},
			{From: "left", To: "sink", Kind: "transfer"},
			{From: "source", To: "left", Kind: "transfer"},
		}}
		for i, name := range []string{"source", "left", "right", "sink", "audit"} {
			a.Points = append(a.Points, Point{Name: name,
				Completeness: Completeness{Kept: kept[i], Why: []string{name + " lacks some"}}})
		}
		return a
	}
	for name, test := range map[string]struct {
		kept []Kept
		of   Change
		why  string
	}{
		"all": {[]Kept{All, All, All, All, All}, Change{From: "left", To: "sink"}, ""},
		"the other branch": {[]Kept{All, All, Lossy, All, All}, Change{From: "left", To: "sink"},
			"right lacks some"},
		"before the branches": {[]Kept{All, All, Lossy, All, All},
			Change{From: "source", To: "left"}, ""},
		"after it": {[]Kept{All, All, All, All, Lossy}, Change{From: "left", To: "sink"}, ""},
		"after its end": {[]Kept{All, All, All, All, Unknown},
			Change{From: "source", To: "sink", Kind: "end-to-end"}, "audit lacks some"},
		"before its begin": {[]Kept{Sampled, All, All, All, All},
			Change{From: "left", To: "audit", Kind: "end-to-end"}, "source lacks some"},
	} {
		whole := answer(All, All, All, All, All)
		got := whyUnlike(test.of, []*Answer{whole, answer(test.kept...)})
		if !strings.Contains(got, test.why) || (got == "") != (test.why == "") {
			t.Errorf("%s: %q, want %q", name, got, test.why)
		}
	}
}

// A row whose percentile is withheld is still listed, and says why. Figures that are not known are
// null.
func TestWithheldChange(t *testing.T) {
	of := func(d Durations) []spanOf { return []spanOf{{&Span{All: d}, "monday", exact}} }
	known := Durations{Count: 1000, Percentiles: Percentiles{{50, Interval{100, 110}}},
		Chance: Percentiles{{50, Interval{99, 111}}}}
	far := Durations{Count: 1000, Percentiles: Percentiles{{50, Interval{900, 910}}},
		Chance: Percentiles{{50, Interval{899, 911}}}}
	lacking := known
	lacking.Withheld, lacking.Chance = 3, nil
	near := known
	near.Unplaced, near.Percentiles = 3, Percentiles{{50, Interval{110, 120}}}
	for name, test := range map[string]struct {
		before, after Durations
		want          Verdict
		why, json     string
	}{
		"withheld": {known, Durations{Withheld: 4}, Withheld,
			`run "monday" has no p50: all 4 durations are withheld`,
			`"before_lo_ns":100,"before_hi_ns":110,"after_lo_ns":null,"after_hi_ns":null,` +
				`"noise_ns":null`},
		"not computed": {Durations{Unplaced: 7}, known, Withheld,
			"none of 7 durations could be computed", `"before_lo_ns":null`},
		"no percentile": {Durations{Count: 7}, known, Withheld, "its logs do not determine it",
			""},
		"too few lack": {lacking, far, Undecided,
			`of 1003 durations of run "monday", 3 are withheld`, `"noise_ns":null`},
		"a chance of what lacks": {near, known, Undecided, "3 are withheld or could not be", ""},
		"too few": {known, Durations{Count: 5, Percentiles: far.Percentiles}, Undecided,
			`run "monday" has too few durations to tell how far chance moves their p50: it has 5`,
			""},
		"few lack": {near, far, Slower, "", `"noise_ns":1`},
	} {
		c := percentileChange(Change{Percent: 50}, of(test.before), of(test.after))
		text, err := json.Marshal(c)
		if c.Verdict != test.want || !strings.Contains(c.Why, test.why) || c.Needs != nil ||
			(c.Why == "") != (test.why == "") || err != nil ||
			!strings.Contains(string(text), test.json) {
			t.Errorf("%s: %s, %v, want %s, %q", name, text, err, test.want, test.why)
		}
	}
}
