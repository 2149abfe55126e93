package sim

import (
	"slices"
	"strings"

	"github.com/cloudprofiler/cloudprofiler/internal/plot"
	"github.com/cloudprofiler/cloudprofiler/sim"
)

// figure collects what observers report. It has a panel for each series, because series have
// different units.
type figure struct {
	byCycles bool // times are numbers of cycles
	panels   []plot.Panel
}

func (f *figure) note(observer, series string, at sim.Time, value float64) {
	// A series is a name, or a name, a comma and a unit.
	what, unit := series, series
	if i := strings.LastIndex(series, ", "); i >= 0 {
		what, unit = series[:i], series[i+2:]
	}
	title := observer + ": " + what
	i := slices.IndexFunc(f.panels, func(p plot.Panel) bool { return p.Title == title })
	if i < 0 {
		i = len(f.panels)
		logarithmic := series == "variance" || unit == "µs"
		f.panels = append(f.panels, plot.Panel{Title: title, Y: plot.Axis{Label: unit,
			Log: logarithmic, Zero: !logarithmic}, Series: []plot.Series{{Kind: plot.Line}}})
	}
	s := &f.panels[i].Series[0]
	s.X, s.Y = append(s.X, float64(at)), append(s.Y, value)
}

// of returns the figure of a configuration.
func (f *figure) of(name string) plot.Figure {
	x := plot.Axis{Label: "cycle", Whole: true}
	if !f.byCycles {
		x = plot.Axis{Label: "simulated time", Unit: "s"}
	}
	for i := range f.panels {
		f.panels[i].X = x
		if s := f.panels[i].Series[0]; !f.byCycles {
			for j := range s.X {
				s.X[j] /= 1e9
			}
		}
	}
	return plot.Figure{Title: "Simulation", Subtitle: name, Panels: f.panels}
}
