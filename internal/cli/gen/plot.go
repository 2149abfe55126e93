package gen

import (
	"encoding/json"
	"fmt"
	"io"
	"math"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/cloudprofiler/cloudprofiler/generator"
	"github.com/cloudprofiler/cloudprofiler/internal/plot"
)

func newGenPlot() *cobra.Command {
	var svg bool
	cmd := &cobra.Command{
		Use:   "plot [FILE]",
		Short: "Draw latency over load, from a search",
		Long: `Draw latency over load, from the output of cprof gen search --json or of a program
of yours that writes the same, such as examples/natssearch. Without a file, the command reads
standard input. It draws with characters, or as SVG.`,
		Example: `  cprof gen plot search.json
  cprof gen plot --svg search.json > curve.svg
  cprof gen search --target bucket:20000 --json | cprof gen plot`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			in := cmd.InOrStdin()
			if len(args) > 0 {
				file, err := os.Open(args[0])
				if err != nil {
					return fmt.Errorf("plot: %w", err)
				}
				defer file.Close()
				in = file
			}
			return plotSearch(cmd.OutOrStdout(), in, svg)
		},
	}
	cmd.Flags().BoolVar(&svg, "svg", false, "draw as SVG")
	return cmd
}

func plotSearch(w io.Writer, in io.Reader, svg bool) error {
	var r generator.SearchResult
	if err := json.NewDecoder(in).Decode(&r); err != nil {
		return fmt.Errorf("plot: this is not what a search prints with --json: %w", err)
	}
	if len(r.Trials) == 0 {
		return fmt.Errorf("plot: the search made no trials")
	}
	if svg {
		return searchFigure(r).WriteSVG(w)
	}
	return searchFigure(r).WriteText(w, 100)
}

// highestShown is the highest rate in the figure, as a multiple of the sustained rate. A search
// begins far above the sustained rate, and showing all of it would leave no space for what matters.
const highestShown = 1.5

// searchFigure returns a figure with two panels: the latency at each load, and below it the
// engine's throughput. If several trials have the same rate, the figure shows their medians.
func searchFigure(r generator.SearchResult) plot.Figure {
	edge, out := math.Inf(1), 0
	if r.Sustained > 0 {
		edge = highestShown * r.Sustained
	}
	ms := func(of func(generator.Trial) time.Duration) func(generator.Trial) float64 {
		return func(t generator.Trial) float64 { return float64(of(t)) / 1e6 }
	}
	p99 := ms(func(t generator.Trial) time.Duration { return t.P99 })
	var below, above, failed, all []generator.Trial
	highest := 0.0
	for _, t := range r.ByRate() {
		if t.Rate > edge {
			out++
			continue
		}
		all, highest = append(all, t), t.Rate
		switch {
		case t.Sustained && t.Rate <= r.Sustained:
			below = append(below, t)
		case t.Sustained:
			above = append(above, t)
		case t.P99 > 0:
			failed = append(failed, t)
		}
	}
	x := plot.Axis{Label: "load, tuples a second", From: 0, To: highest * 1.02}
	limit := plot.Series{Name: "sustained", Kind: plot.Rule, X: []float64{r.Sustained},
		Color: plot.Grey}
	f := plot.Figure{
		Title:    "Latency over load",
		Subtitle: strings.SplitN(r.Answer(), "\n", 2)[0],
		Panels: []plot.Panel{
			{Title: "from due to out", X: x, Y: plot.Axis{Label: "latency", Unit: "ms", Log: true},
				Series: []plot.Series{
					overLoad(below, "p50",
						ms(func(t generator.Trial) time.Duration { return t.P50 })),
					overLoad(below, "p99", p99),
					overLoad(below, "largest",
						ms(func(t generator.Trial) time.Duration { return t.Max })),
					points(failed, "p99 where not sustained", p99, plot.Red), limit}},
			{Title: "throughput", X: x, Y: plot.Axis{Label: "tuples a second", Zero: true},
				Series: []plot.Series{
					{Name: "went in", Kind: plot.Line, X: []float64{0, highest},
						Y: []float64{0, highest}, Color: plot.Grey},
					overLoad(all, "came out",
						func(t generator.Trial) float64 { return t.Delivered }), limit}},
		},
		Notes: []string{fmt.Sprintf("the generator's own ceiling: %.0f tuples a second; "+
			"latencies are from when a tuple was due until it came out", r.Ceiling)},
	}
	if len(above) > 0 {
		latencies := &f.Panels[0].Series
		*latencies = append(*latencies, points(above, "p99 where sustained, and not confirmed",
			p99, plot.Sky))
	}
	if out > 0 {
		f.Notes = append(f.Notes,
			fmt.Sprintf("not drawn: %d trials at more than %.1f times what is sustained",
				out, highestShown))
	}
	if r.Stalls.Count > 0 {
		f.Notes = append(f.Notes, r.Stalls.String())
	}
	return f
}

// overLoad returns a line through the medians at each rate. The trials must be sorted by rate.
func overLoad(trials []generator.Trial, name string, of func(generator.Trial) float64) plot.Series {
	s := plot.Series{Name: name, Kind: plot.Line}
	for i := 0; i < len(trials); {
		var same []float64
		rate := trials[i].Rate
		for ; i < len(trials) && trials[i].Rate == rate; i++ {
			same = append(same, of(trials[i]))
		}
		s.X, s.Y = append(s.X, rate), append(s.Y, median(same))
	}
	return s
}

func points(trials []generator.Trial, name string, of func(generator.Trial) float64,
	color plot.Color) plot.Series {
	s := plot.Series{Name: name, Kind: plot.Points, Color: color}
	for _, t := range trials {
		s.X, s.Y = append(s.X, t.Rate), append(s.Y, of(t))
	}
	return s
}

func median(v []float64) float64 {
	sorted := slices.Sorted(slices.Values(v))
	return (sorted[(len(sorted)-1)/2] + sorted[len(sorted)/2]) / 2
}
