package cli

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
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
		Short: "Draw the latency over the load that a search saw",
		Long: `Draw the latency over the load that a search saw: from what cprof gen search --json, or a program of yours that searches,
has printed. Without a file it reads from standard input. It draws with characters, or as SVG.`,
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

// searchFigure is the latency over the load above, and what came out of the engine below.
func searchFigure(r generator.SearchResult) plot.Figure {
	var load, p50, p99, worst, in, out []float64
	var failed, failedP99 []float64
	for _, t := range r.ByRate() {
		in, out = append(in, t.Rate), append(out, t.Delivered)
		ms := func(d time.Duration) float64 { return float64(d) / 1e6 }
		if t.Sustained {
			load, p50, p99, worst = append(load, t.Rate), append(p50, ms(t.P50)), append(p99, ms(t.P99)), append(worst, ms(t.Max))
		} else if t.P99 > 0 {
			failed, failedP99 = append(failed, t.Rate), append(failedP99, ms(t.P99))
		}
	}
	x := plot.Axis{Label: "load, tuples a second", From: 0, To: in[len(in)-1] * 1.02}
	limit := plot.Series{Name: "sustained", Kind: plot.Rule, X: []float64{r.Sustained}, Color: plot.Grey}
	f := plot.Figure{
		Title:    "Latency over load",
		Subtitle: strings.SplitN(r.Answer(), "\n", 2)[0],
		Panels: []plot.Panel{
			{Title: "from due to out", X: x, Y: plot.Axis{Label: "latency", Unit: "ms", Log: true}, Series: []plot.Series{
				{Name: "p50", Kind: plot.Line, X: load, Y: p50}, {Name: "p99", Kind: plot.Line, X: load, Y: p99}, {Name: "largest", Kind: plot.Line, X: load, Y: worst},
				{Name: "p99 where not sustained", Kind: plot.Points, X: failed, Y: failedP99, Color: plot.Red}, limit}},
			{Title: "throughput", X: x, Y: plot.Axis{Label: "came out, tuples a second", Zero: true}, Series: []plot.Series{
				{Name: "came out", Kind: plot.Line, X: in, Y: out}, limit}},
		},
		Notes: []string{fmt.Sprintf("the generator's own ceiling: %.0f tuples a second; latencies are from when a tuple was due until it came out", r.Ceiling)},
	}
	if r.Stalls.Count > 0 {
		f.Notes = append(f.Notes, r.Stalls.String())
	}
	return f
}
