package report

import (
	"slices"

	"github.com/cloudprofiler/cloudprofiler/analysis"
)

// pauses adds the pauses of JVMs to a tuple, given the events at the ends of its steps.
func (t *Tuple) pauses(w *analysis.TuplePath, ends [][2]int) {
	if w.Paused != nil {
		t.Paused, t.Paused_known = interval(*w.Paused), true
	}
	for _, p := range w.Pauses {
		pause := Pause{JVM: p.JVM, Node: p.Node, Kind: p.Kind, Begin: interval(p.Begin),
			End: interval(p.End), Length: interval(p.Length)}
		for step, of := range ends {
			if slices.Contains(p.Events, of[0]) || slices.Contains(p.Events, of[1]) {
				pause.Steps = append(pause.Steps, step)
			}
		}
		t.Pauses = append(t.Pauses, pause)
	}
}
