package report

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/cloudprofiler/cloudprofiler/analysis"
)

// A pause has the numbers of the steps that begin or end in its JVM. If a tuple forks, the steps of
// all branches have numbers.
func TestFromShowsPauses(t *testing.T) {
	a := &analysis.Answer{}
	w := analysis.TuplePath{Paused: &analysis.Interval{Lo_cycles: 7, Hi_cycles: 1<<60 + 1}}
	for _, p := range []string{"source/send", "left/recv", "right/recv", "sink/recv"} {
		a.Points = append(a.Points, analysis.Point{Name: p, Actor: p[:4]})
		w.Passed = append(w.Passed, analysis.Passed{Point: p, Node: "A"})
	}
	w.Passed[1].After = []analysis.Arrival{{From: 0}}
	w.Passed[2].After = []analysis.Arrival{{From: 0}}
	w.Passed[3].After = []analysis.Arrival{{From: 1}, {From: 2}}
	w.Pauses = []analysis.PathPause{{JVM: "jvm-7", Node: "A", Kind: "ZMarkEnd", Events: []int{2},
		Begin:  analysis.Interval{Lo_cycles: -5, Hi_cycles: -3},
		End:    analysis.Interval{Lo_cycles: 20, Hi_cycles: 24},
		Length: analysis.Interval{Lo_cycles: 23, Hi_cycles: 29}}}
	a.Slowest = []analysis.TuplePath{w, {Passed: w.Passed}}
	f := &from{new(Data), a}
	f.tuples()
	want := []Pause{{JVM: "jvm-7", Node: "A", Kind: "ZMarkEnd", Begin: Interval{-5, -3},
		End: Interval{20, 24}, Length: Interval{23, 29}, Steps: []int{1, 3}}}
	if diff := cmp.Diff(want, f.Tuples[0].Pauses); diff != "" {
		t.Error(diff)
	}
	if got := f.Tuples[0]; got.Paused != (Interval{7, 1<<60 + 256}) || !got.Paused_known {
		t.Errorf("%+v, known %v", got.Paused, got.Paused_known)
	}
	if got := f.Tuples[1]; got.Paused_known || len(got.Pauses) > 0 {
		t.Errorf("a tuple without pauses: %+v, known %v", got.Paused, got.Paused_known)
	}
}
