package commands

import (
	"fmt"
	"math"
	"os"
	"path/filepath"

	"github.com/cloudprofiler/cloudprofiler/bench"
	"github.com/cloudprofiler/cloudprofiler/internal/command"
	"github.com/cloudprofiler/cloudprofiler/internal/plot"
)

// writeReplayPlots draws what was simulated and writes the images into a directory.
func writeReplayPlots(dir string, line *replayLine) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return fmt.Errorf("write plots: %w", err)
	}
	for name, figure := range map[string]plot.Figure{
		"replay-offsets.svg": offsetsHeld(line),
		"replay-regions.svg": plotFeasible(line),
	} {
		figure.Notes = append(figure.Notes, "made by: cp-bench replay --plots "+filepath.Base(dir))
		if err := command.Draw(filepath.Join(dir, name), figure.WriteSVG); err != nil {
			return err
		}
	}
	return nil
}

// offsetsHeld shows the offsets over each variable.
func offsetsHeld(line *replayLine) plot.Figure {
	f := plot.Figure{
		Title: "How many processes a replay clock's stamp holds",
		Subtitle: "Mean of all events. One variable changes in each panel; the others are as in " +
			"this setting: " + settingText(replayBase) + ".",
	}
	rest := line.Varied
	for _, vary := range variations {
		var x, y []float64
		for _, v := range rest[:len(vary.values)] {
			x, y = append(x, vary.of(&v.ClockSetting)), append(y, v.Offsets)
		}
		rest = rest[len(vary.values):]
		f.Panels = append(f.Panels, plot.Panel{
			X: plot.Axis{Label: vary.label, Unit: vary.unit, Log: true},
			Y: plot.Axis{Label: "offsets held", Zero: true},
			Series: []plot.Series{
				{Kind: plot.Line, X: x, Y: y, Color: plot.Blue},
				{Kind: plot.Points, X: x, Y: y, Color: plot.Blue},
			},
		})
	}
	return f
}

func settingText(s bench.ClockSetting) string {
	return fmt.Sprintf("%d processes, skew %g µs, epochs of %g µs, delay %g µs, %g messages/s "+
		"from each process", s.Processes, s.Skew_us, s.Epoch_us, s.Delay_us, s.Rate_hz)
}

// plotFeasible shows for which rates and delays replay clocks are feasible: a point for each rate
// and delay, and a line between the feasible and the other points.
func plotFeasible(line *replayLine) plot.Figure {
	f := plot.Figure{
		Title: "Where replay clocks are feasible",
		Subtitle: fmt.Sprintf("Feasible: a stamp holds at most %d processes on average. Clocks "+
			"within %g µs are those of a proven bound; within 1 and 2 ms, those under NTP.",
			replayBudget, oursSkew_us),
	}
	for _, r := range line.Regions {
		series := []plot.Series{
			{Name: "feasible", Kind: plot.Points, Color: plot.Blue},
			{Name: "not feasible", Kind: plot.Points, Color: plot.Red},
			{Name: "boundary", Kind: plot.Line, Color: plot.Green},
		}
		for i, delay := range r.Delays_us {
			for k, rate := range r.Rates_hz {
				s := &series[0]
				if r.Offsets[i][k] > replayBudget {
					s = &series[1]
				}
				s.X, s.Y = append(s.X, rate), append(s.Y, delay)
			}
			if at, ok := boundaryRate(r.Rates_hz, r.Offsets[i]); ok {
				series[2].X, series[2].Y = append(series[2].X, at), append(series[2].Y, delay)
			}
		}
		f.Panels = append(f.Panels, plot.Panel{
			Title:  fmt.Sprintf("%d processes, clocks within %g µs", r.Processes, r.Skew_us),
			X:      plot.Axis{Label: "messages from each process", Unit: "1/s", Log: true},
			Y:      plot.Axis{Label: "least delay", Unit: "µs", Log: true},
			Series: series,
		})
	}
	return f
}

// boundaryRate returns the rate above which a stamp contains more than replayBudget offsets.
// Between two measured rates, it interpolates on a logarithmic scale.
func boundaryRate(rates, offsets []float64) (at float64, ok bool) {
	for k := 1; k < len(rates); k++ {
		if a, b := offsets[k-1], offsets[k]; a <= replayBudget && b > replayBudget {
			share := (replayBudget - a) / (b - a)
			return rates[k-1] * math.Pow(rates[k]/rates[k-1], share), true
		}
	}
	return 0, false
}
