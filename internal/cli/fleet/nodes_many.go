package fleet

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/cloudprofiler/cloudprofiler/control"
	"github.com/cloudprofiler/cloudprofiler/coordinator"
	"github.com/cloudprofiler/cloudprofiler/internal/command"
	"github.com/cloudprofiler/cloudprofiler/internal/plot"
)

// manyNodes is the size of the largest fleet whose nodes and pairs are all shown.
const manyNodes = 30

// writeMany summarises a large fleet on at most a screen. What is unhealthy comes first.
func writeMany(out io.Writer, m *coordinator.Matrix) {
	here, measured := 0, 0
	for _, n := range m.Nodes {
		if n.Alive {
			here++
		}
	}
	var worst []coordinator.PairStatus
	for _, p := range m.Pairs {
		if p.Hi_cycles == 0 || p.Old {
			continue
		}
		if p.From < p.Into {
			measured++
		}
		worst = append(worst, p)
	}
	fmt.Fprintf(out, "%d nodes: %d here, %d gone; %d pairs are measured and related\n",
		len(m.Nodes), here, len(m.Nodes)-here, measured)
	const faults, pairs = 8, 8
	writeHealth(out, m, faults)
	fmt.Fprintln(out, "\nbound, ± µs of the node whose cycles are asked for:")
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(w, "\tpairs\tleast\tmedian\t90 %\t99 %\tlargest\t")
	for _, d := range distributions(m) {
		if n := len(d.bounds); n > 0 {
			at := func(percent int) string { return boundText(d.bounds[(n-1)*percent/100]) }
			fmt.Fprintf(w, "%s\t%d\t%s\t%s\t%s\t%s\t%s\t\n", d.name, n, at(0), at(50), at(90),
				at(99), at(100))
		}
	}
	w.Flush()
	slices.SortStableFunc(worst, func(x, y coordinator.PairStatus) int {
		switch {
		case x.Bound_ns > y.Bound_ns:
			return -1
		case x.Bound_ns < y.Bound_ns:
			return 1
		}
		return 0
	})
	fmt.Fprintln(out, "\nthe measured pairs with the largest bounds:")
	w = tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	shown := map[[2]string]bool{}
	for _, p := range worst {
		if ends := [2]string{min(p.From, p.Into), max(p.From, p.Into)}; shown[ends] {
			continue // the other direction is larger, and shown
		} else if shown[ends] = true; len(shown) > pairs {
			break
		}
		fmt.Fprintf(w, "  %s\tinto %s\t± %s µs\t%s\t%s old\n", p.From, p.Into,
			boundText(p.Bound_ns), p.Verdict, ago(p.Age_ns))
	}
	w.Flush()
	fmt.Fprintln(out, "\none pair: cprof nodes FROM INTO; all measured pairs: cprof nodes --pairs")
}

// distribution has sorted bounds.
type distribution struct {
	name   string
	bounds []float64 // in nanoseconds
}

// distributions returns the bounds of all measured pairs, and those of a random sample of pairs.
func distributions(m *coordinator.Matrix) []distribution {
	var bounds []float64
	for _, p := range m.Pairs {
		if p.Hi_cycles != 0 && !p.Old {
			bounds = append(bounds, p.Bound_ns)
		}
	}
	slices.Sort(bounds)
	return []distribution{{"measured pairs, both ways", bounds},
		{"random pairs", m.SampledBounds_ns}}
}

// distributionFigure draws how many pairs have at most a given bound.
func distributionFigure(m *coordinator.Matrix) plot.Figure {
	panel := plot.Panel{
		Title: "How many pairs have at most this bound",
		X:     plot.Axis{Label: "bound, ±", Unit: "µs", Log: true},
		Y:     plot.Axis{Label: "pairs", Unit: "%", From: 0, To: 100},
	}
	for i, d := range distributions(m) {
		s := plot.Series{Name: d.name, Kind: plot.Line, Color: []plot.Color{plot.Blue,
			plot.Orange}[i]}
		// A few hundred points draw a smooth curve, however many pairs there are.
		const points = 400
		for k := range min(points, len(d.bounds)) {
			at := k * (len(d.bounds) - 1) / max(1, min(points, len(d.bounds))-1)
			s.X = append(s.X, d.bounds[at]/1000)
			s.Y = append(s.Y, 100*float64(at+1)/float64(len(d.bounds)))
		}
		if len(s.X) > 0 {
			panel.Series = append(panel.Series, s)
		}
	}
	return plot.Figure{
		Title: fmt.Sprintf("Bounds between the %d nodes of a fleet", len(m.Nodes)),
		Subtitle: m.At.UTC().Format("2006-01-02 15:04:05 UTC") +
			"; half-widths in cycles of the node whose cycles are asked for, as time",
		Panels: []plot.Panel{panel},
	}
}

// showPair shows the bound of one pair, and the relations on which it rests.
func showPair(cmd *cobra.Command, link *control.Client, from, into string, asJSON bool) error {
	var a coordinator.PairAnswer
	request := coordinator.PairRequest{From: from, Into: into}
	if err := ask(cmd.Context(), link, coordinator.AskPair, request, &a); err != nil {
		return err
	}
	p, out := a.Pair, cmd.OutOrStdout()
	switch {
	case asJSON:
		if err := printJSON(cmd, a); err != nil {
			return err
		}
	case p.Hi_cycles == 0:
		fmt.Fprintf(out, "%s into %s: no bound yet: %s\n", from, into, command.Line(p.Unhealthy))
	default:
		fmt.Fprintf(out, "%s into %s: ± %s µs, %s\n", from, into, boundText(p.Bound_ns), p.Verdict)
		fmt.Fprintf(out, "when %s showed %d, %s was in [%d, %d]\n", from, p.Reading_cycles, into,
			p.Lo_cycles, p.Hi_cycles)
		fmt.Fprintf(out, "lower end by %s\n", strings.Join(p.LoPath, " → "))
		fmt.Fprintf(out, "upper end by %s\n", strings.Join(p.HiPath, " → "))
		if a.Why != "" {
			fmt.Fprintf(out, "the two are measured with each other: %s\n", command.Line(a.Why))
		}
		fmt.Fprintln(out)
		w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
		for _, h := range a.Hops {
			fmt.Fprintf(w, "  %s\tinto %s\t± %s µs\t%s\t%s\n", h.From, h.Into,
				boundText(h.Bound_ns), h.Verdict, command.Line(h.Why))
		}
		w.Flush()
	}
	if p.Verdict != "consistent" {
		return fmt.Errorf("%s with %s is not consistent: %w", from, into, command.ErrPartial)
	}
	return nil
}
