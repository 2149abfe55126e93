package analysis

import (
	"context"
	"path/filepath"
	"slices"
	"testing"

	"github.com/cloudprofiler/cloudprofiler/internal/seed"
	"github.com/cloudprofiler/cloudprofiler/internal/simrun"
)

// diffOf compares two runs.
func diffOf(before, after *Answer) ([]Change, error) {
	return Diff([]*Answer{before}, []*Answer{after})
}

// A span that takes much longer is slower. A change that chance explains is not called slower.
func TestDiffRespectsBoundsAndNoise(t *testing.T) {
	rng := seed.Random(t)
	parent := t.TempDir()
	answerOf := func(name string, added uint64) *Answer {
		nodes := simrun.Nodes(rng, 2)
		channels := []simrun.Channel{
			{Node: 0, Name: "a/send"}, {Node: 1, Name: "b/recv"}, {Node: 0, Name: "c/recv"},
		}
		for id := range uint64(8000) {
			at := simrun.Hz + id*50_000
			for i := range channels {
				channels[i].Records = append(channels[i].Records, simrun.Record{Time: at, ID: id})
				at += 100_000 + rng.Uint64N(50_000) + added
			}
		}
		simrun.InOrder(channels[1].Records)
		simrun.InOrder(channels[2].Records)
		if err := simrun.Write(rng, parent, name, nodes, channels); err != nil {
			t.Fatal(err)
		}
		a, err := Run(context.Background(), openRun(t, parent, filepath.Base(name)), Options{})
		if err != nil {
			t.Fatal(err)
		}
		// The frequencies of a simulation are known exactly. An uncertain frequency would hide the
		// changes that this test makes.
		a.Reference.FrequencyLo_hz, a.Reference.FrequencyHi_hz = simrun.Hz, simrun.Hz
		return a
	}
	base, again, slower := answerOf("base", 0), answerOf("again", 0), answerOf("slower", 100_000)
	for _, test := range []struct {
		before, after *Answer
		want          map[Verdict]bool
	}{
		{base, again, map[Verdict]bool{Same: true, Undecided: true}},
		{base, slower, map[Verdict]bool{Slower: true}},
		{slower, base, map[Verdict]bool{Faster: true}},
	} {
		changes, err := diffOf(test.before, test.after)
		if err != nil || len(changes) != 6 {
			t.Fatalf("%d changes, %v", len(changes), err)
		}
		for _, c := range changes {
			if !test.want[c.Verdict] || c.Suspect {
				t.Errorf("%s to %s: %+v", test.before.Run, test.after.Run, c)
			}
		}
	}
	gone := *base
	gone.EndToEnd = nil
	if changes, _ := diffOf(base, &gone); changes[len(changes)-1].Verdict != Gone {
		t.Errorf("%+v", changes)
	}
	if changes, _ := diffOf(&gone, base); changes[len(changes)-1].Verdict != New {
		t.Errorf("%+v", changes)
	}
	// A change is an estimate if it rests on a suspect relation in either run.
	suspect := *base
	suspect.Spans = slices.Clone(base.Spans)
	suspect.Spans[0].All.Suspect = 1
	for _, pair := range [][2]*Answer{{base, &suspect}, {&suspect, base}} {
		if changes, err := diffOf(pair[0], pair[1]); err != nil || !changes[0].Suspect ||
			changes[len(changes)-1].Suspect {
			t.Errorf("%+v, %v", changes, err)
		}
	}
	unknown := *base
	unknown.Reference.FrequencyLo_hz = 0
	if _, err := diffOf(base, &unknown); err == nil {
		t.Error("cycles of an unknown frequency were compared")
	}
}

var exact = Reference{FrequencyLo_hz: 1e9, FrequencyHi_hz: 1e9} // a cycle is 1 ns

// TestVerdictOfAChange compares medians whose difference is just small enough, or just too large,
// to be explained by bounds and noise. The verdict must be right for both.
func TestVerdictOfAChange(t *testing.T) {
	// The median is in [lo, hi]. Chance raises it by at most the parameter up, and lowers it by at
	// most the parameter down.
	median := func(lo, hi, up, down int64) Durations {
		return Durations{
			Count: 1000, Percentiles: Percentiles{{50, Interval{lo, hi}}},
			Chance: Percentiles{{50, Interval{lo - down, hi + up}}},
		}
	}
	vague := Reference{FrequencyLo_hz: 0.8e9, FrequencyHi_hz: 1e9}
	for name, test := range map[string]struct {
		before, after Durations
		of            Reference // reference of the runs before
		noise         float64
		want          Verdict
	}{
		"apart": {median(100, 110, 0, 0), median(111, 120, 0, 0), exact,
			0, Slower},
		"apart, the other way": {median(111, 120, 0, 0), median(100, 110, 0, 0), exact,
			0, Faster},
		"they touch": {median(100, 110, 0, 0), median(110, 120, 0, 0), exact,
			0, Undecided},
		"they touch, the other way": {median(110, 120, 0, 0), median(100, 110, 0, 0), exact,
			0, Undecided},
		"they overlap": {median(100, 200, 0, 0), median(150, 250, 0, 0), exact,
			0, Undecided},
		"by the noise": {median(100, 110, 5, 0), median(115, 120, 0, 0), exact,
			5, Undecided},
		"by more than the noise": {median(100, 110, 5, 0), median(116, 120, 0, 0), exact,
			5, Slower},
		"by the noise, the other way": {median(115, 120, 0, 0), median(100, 110, 0, 5), exact,
			5, Undecided},
		"by more, the other way": {median(116, 120, 0, 0), median(100, 110, 0, 5), exact,
			5, Faster},
		"noise of the second run": {median(100, 110, 0, 0), median(115, 120, 0, 5), exact,
			5, Undecided},
		"noise of both": {median(100, 110, 3, 3), median(115, 120, 4, 4), exact,
			5, Undecided},
		"more than the noise of both": {median(100, 110, 3, 3), median(116, 120, 4, 4), exact,
			5, Slower},
		"by more than either noise, and less than both": {
			median(100, 110, 5, 0), median(116, 120, 12, 0), exact, 13, Undecided},
		"one value": {median(100, 100, 0, 0), median(100, 100, 0, 0), exact,
			0, Same},
		"within the noise": {median(100, 101, 5, 0), median(104, 105, 0, 0), exact,
			5, Same},
		"more than the noise may be hidden": {median(100, 101, 5, 0), median(104, 106, 0, 0), exact,
			5, Undecided},
		"hidden, the other way": {median(104, 106, 5, 0), median(100, 101, 0, 0), exact,
			5, Undecided},
		"an unsure frequency": {median(100, 100, 0, 0), median(125, 125, 0, 0), vague,
			0, Undecided},
		"an unsure frequency, and apart": {median(100, 100, 0, 0), median(126, 126, 0, 0), vague,
			0, Slower},
		"below 0, of an unsure frequency": {median(-100, -100, 0, 0), median(-125, -125, 0, 0),
			vague, 0, Undecided},
	} {
		c := percentileChange(Change{Percent: 50},
			[]spanOf{{&Span{All: test.before}, "x", test.of}},
			[]spanOf{{&Span{All: test.after}, "y", exact}})
		if c.Verdict != test.want || c.Noise_ns != test.noise {
			t.Errorf("%s: %+v, want %s, noise %g", name, c, test.want, test.noise)
		}
	}
	// A span from the earliest origin and a span from the latest origin are not the same span.
	a := &Answer{Reference: exact}
	for i, origin := range []string{"earliest", "latest"} {
		at := int64(1000 * (i + 1))
		a.EndToEnd = append(a.EndToEnd, Span{
			From: "a", To: "b", Origin: origin, All: median(at, at, 0, 0),
			Completeness: Completeness{Kept: All},
		})
	}
	changes, err := diffOf(a, a)
	if err != nil || len(changes) != 4 {
		t.Fatalf("%v, %v", changes, err)
	}
	for i, c := range changes {
		// There is no p99.
		want := []Verdict{Same, Withheld}[i%2]
		if c.Verdict != want || c.Origin != a.EndToEnd[i/2].Origin {
			t.Errorf("%+v", c)
		}
	}
}
