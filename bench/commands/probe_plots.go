package commands

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/cloudprofiler/cloudprofiler/bench/accuracy"
	"github.com/cloudprofiler/cloudprofiler/internal/command"
	"github.com/cloudprofiler/cloudprofiler/internal/plot"
	"github.com/cloudprofiler/cloudprofiler/internal/proof"
	"github.com/cloudprofiler/cloudprofiler/vnode"
)

// writeProbePlots draws what was measured and writes the images into a directory.
func writeProbePlots(dir string, result accuracy.Result) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return fmt.Errorf("write plots: %w", err)
	}
	where := "two network namespaces"
	if result.Loopback {
		where = "the loopback interface"
	}
	machine := proof.ThisMachine()
	where = fmt.Sprintf("%s, %d cores, Linux %s; two virtual nodes on %s",
		machine.CPU, machine.Cores, machine.Kernel, where)
	for name, figure := range map[string]plot.Figure{
		"bound-over-time.svg": boundOverTime(result),
		"half-widths.svg":     halfWidths(result),
		"price-of-wander.svg": priceOfWander(result),
	} {
		if len(figure.Panels) == 0 {
			continue
		}
		made := "made by: cp-bench probe --plots " + filepath.Base(dir)
		figure.Notes = append(figure.Notes, where, made)
		if err := command.Draw(filepath.Join(dir, name), figure.WriteSVG); err != nil {
			return err
		}
	}
	return nil
}

func colorOf(s accuracy.Stamps) plot.Color {
	if s == accuracy.Kernel {
		return plot.Blue
	}
	return plot.Orange
}

// The function shown reports whether the plots show a session. They show only sessions with trains
// of several exchanges, with ends that sleep while they wait, and with rates that follow a sine.
func shown(s accuracy.Setting) bool { return barsApply(s) && s.Shape == vnode.Sine }

// boundOverTime shows, session by session, the bound at each moment (accuracy.Windowed) around the
// truth.
func boundOverTime(result accuracy.Result) plot.Figure {
	figure := plot.Figure{
		Title: "The bound between two nodes, around the truth",
		Subtitle: "Kernel stamps, blocking, trains of 1 and 5 exchanges twice a second. " +
			"What the relation says of the other node's counter, less what it truly showed.",
	}
	for _, s := range result.Series {
		if !shown(s.Setting) || s.Load || s.Stamps != accuracy.Kernel {
			continue
		}
		band := plot.Series{Name: "bound", Kind: plot.Band, Color: plot.Blue}
		truth := plot.Series{Name: "truth", Kind: plot.Line, Color: plot.Orange}
		for _, p := range s.Points {
			band.X = append(band.X, p.At_s)
			band.Lo, band.Hi = append(band.Lo, p.Lo_us), append(band.Hi, p.Hi_us)
			truth.X, truth.Y = append(truth.X, p.At_s), append(truth.Y, 0)
		}
		figure.Panels = append(figure.Panels, plot.Panel{
			Title:  fmt.Sprintf("w = %v declared, the rate truly moves by half of it", s.Wander),
			X:      plot.Axis{Label: "time", Unit: "s", Zero: true},
			Y:      plot.Axis{Label: "bound less truth", Unit: "µs", From: -1.2, To: 1.2},
			Series: []plot.Series{band, truth},
		})
	}
	return figure
}

// halfWidths shows the share of the queries whose half-width does not exceed a given value.
func halfWidths(result accuracy.Result) plot.Figure {
	figure := plot.Figure{
		Title: "How narrow bounds are: user stamps, kernel stamps, and the paper's way",
		Subtitle: "What share of the queries has a half-width of no more than so much. " +
			"The quantum and the core slack of both nodes are in it.",
	}
	for _, loaded := range []bool{false, true} {
		panel := plot.Panel{
			Title: "idle link",
			X:     plot.Axis{Label: "half-width", Unit: "µs", Log: true, From: 0.1, To: 100},
			Y:     plot.Axis{Label: "queries", Unit: "%", From: 0, To: 100},
		}
		if loaded {
			panel.Title = "link saturated by TCP"
		}
		for _, row := range result.Rows {
			if !shown(row.Setting) || row.Load != loaded || row.Bound != accuracy.Windowed {
				continue
			}
			if row.Stamps == accuracy.User && row.Wander.PPM() != 1 {
				continue // the wander is too small to show next to the delay
			}
			series := distributionLine(row.HalfWidths_us)
			series.Name = fmt.Sprintf("windowed, %s stamps, w = %v", row.Stamps, row.Wander)
			series.Color = colorOf(row.Stamps)
			if row.Stamps == accuracy.Kernel && row.Wander.PPM() == 1 {
				series.Color = plot.Green
			}
			panel.Series = append(panel.Series, series)
		}
		for _, p := range result.Papers {
			if p.Load == loaded && p.Transport == "zmq" {
				series := distributionLine(p.Paper_us)
				series.Name, series.Color = "the paper's, over ZeroMQ, w = 0", plot.Red
				panel.Series = append(panel.Series, series)
			}
		}
		if len(panel.Series) > 0 {
			figure.Panels = append(figure.Panels, panel)
		}
	}
	return figure
}

// distributionLine returns the line of a distribution: for each value, the share of the values
// below it.
func distributionLine(values []float64) plot.Series {
	series := plot.Series{Kind: plot.Line}
	for share := 0; share <= 100; share++ {
		series.X = append(series.X, accuracy.Quantile(values, float64(share)/100))
		series.Y = append(series.Y, float64(share))
	}
	return series
}

// priceOfWander shows how much wider bounds become if more wander is declared than there is.
func priceOfWander(result accuracy.Result) plot.Figure {
	figure := plot.Figure{
		Title: "What it costs to declare more wander",
		Subtitle: "The same trains, twice a second, evaluated at other w. " +
			"Between trains a rate may do what w allows, and nothing shows it.",
	}
	panel := plot.Panel{
		X: plot.Axis{Label: "declared wander w", Unit: "ppm", Log: true, From: 0.1, To: 16},
		Y: plot.Axis{Label: "median half-width", Unit: "µs", Log: true, From: 0.1, To: 100},
	}
	for _, d := range result.Declared {
		if !shown(d.Setting) || d.Load || d.Wander.PPM() != 0.1 {
			continue
		}
		series := plot.Series{
			Name: fmt.Sprintf("%s stamps", d.Stamps), Kind: plot.Line, Color: colorOf(d.Stamps),
		}
		for i, w := range d.Wanders {
			series.X, series.Y = append(series.X, w.PPM()), append(series.Y, d.HalfWidth_us[i])
		}
		panel.Series = append(panel.Series, series)
	}
	if len(panel.Series) > 0 {
		figure.Panels = append(figure.Panels, panel)
	}
	return figure
}
