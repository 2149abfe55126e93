package analysis

import (
	"context"
	"path/filepath"
	"slices"
	"testing"

	"github.com/cloudprofiler/cloudprofiler/internal/seed"
	"github.com/cloudprofiler/cloudprofiler/internal/simrun"
)

// A leg that takes longer by much is slower; by less than chance moves it, it is not called that.
func TestDiffRespectsBoundsAndNoise(t *testing.T) {
	rng := seed.Random(t)
	parent := t.TempDir()
	answerOf := func(name string, added uint64) *Answer {
		nodes := simrun.Nodes(rng, 2)
		channels := []simrun.Channel{{Node: 0, Name: "a/send"}, {Node: 1, Name: "b/recv"}}
		for id := range uint64(5000) {
			at := simrun.Hz + id*50_000
			channels[0].Records = append(channels[0].Records, simrun.Record{Time: at, ID: id})
			channels[1].Records = append(channels[1].Records, simrun.Record{Time: at + 100_000 + rng.Uint64N(50_000) + added, ID: id})
		}
		simrun.InOrder(channels[1].Records)
		if err := simrun.Write(rng, parent, name, nodes, channels); err != nil {
			t.Fatal(err)
		}
		a, err := Run(context.Background(), openRun(t, parent, filepath.Base(name)), Options{})
		if err != nil {
			t.Fatal(err)
		}
		// Frequencies of a simulation are exact; their width would hide everything.
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
		changes, err := Diff(test.before, test.after)
		if err != nil || len(changes) != 4 {
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
	if changes, _ := Diff(base, &gone); changes[len(changes)-1].Verdict != Gone {
		t.Errorf("%+v", changes)
	}
	if changes, _ := Diff(&gone, base); changes[len(changes)-1].Verdict != New {
		t.Errorf("%+v", changes)
	}
	// What rests on a suspect relation in either run is an estimate.
	suspect := *base
	suspect.Legs = slices.Clone(base.Legs)
	suspect.Legs[0].All.Suspect = 1
	for _, pair := range [][2]*Answer{{base, &suspect}, {&suspect, base}} {
		if changes, err := Diff(pair[0], pair[1]); err != nil || !changes[0].Suspect || changes[len(changes)-1].Suspect {
			t.Errorf("%+v, %v", changes, err)
		}
	}
	unknown := *base
	unknown.Reference.FrequencyLo_hz = 0
	if _, err := Diff(base, &unknown); err == nil {
		t.Error("cycles of an unknown frequency were compared")
	}
}
