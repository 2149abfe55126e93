package report

import (
	"slices"

	"github.com/cloudprofiler/cloudprofiler/analysis"
)

// addPauses adds the pauses of JVMs to a tuple, given the events at the ends of its steps.
func (t *Tuple) addPauses(w *analysis.TuplePath, ends [][2]int) {
	if w.Paused != nil {
		t.Paused, t.Paused_known = roundInterval(*w.Paused), true
	}
	for _, p := range w.Pauses {
		pause := Pause{JVM: p.JVM, Node: p.Node, Kind: p.Kind, Begin: roundInterval(p.Begin),
			End: roundInterval(p.End), Length: roundInterval(p.Length)}
		for step, of := range ends {
			if slices.Contains(p.Events, of[0]) || slices.Contains(p.Events, of[1]) {
				pause.Steps = append(pause.Steps, step)
			}
		}
		t.Pauses = append(t.Pauses, pause)
	}
}
