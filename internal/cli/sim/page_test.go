package sim

import (
	"testing"

	"github.com/cloudprofiler/cloudprofiler/sim"
)

// An axis with zeros cannot be logarithmic. A panel has the name of the observer only if several
// observers report numbers.
func TestAxes(t *testing.T) {
	var p page
	for _, least := range []float64{1, 0} {
		s := p.add("")
		for i, v := range []float64{100, 1 + least} {
			s.note("control.a", "wide, µs", sim.Time(i), v*v)
			s.note("control.a", "zeros, %", sim.Time(i), v*(v-1)*least)
		}
	}
	f := p.figure()
	if f.Panels[0].Title != "wide" || !f.Panels[0].Y.Log || f.Panels[0].Y.Label != "µs" {
		t.Errorf("panel %+v", f.Panels[0])
	}
	if f.Panels[1].Title != "zeros" || f.Panels[1].Y.Log || !f.Panels[1].Y.Zero {
		t.Errorf("panel %+v", f.Panels[1])
	}
	p.sections[0].note("control.b", "mean", 0, 1)
	if title := p.figure().Panels[0].Title; title != "a: wide" {
		t.Errorf("with two observers, the title is %q", title)
	}
}
