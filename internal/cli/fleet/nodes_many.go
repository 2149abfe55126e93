package fleet

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/cloudprofiler/cloudprofiler/coordinator"
	"github.com/cloudprofiler/cloudprofiler/internal/command"
	"github.com/cloudprofiler/cloudprofiler/internal/plot"
)

// manyNodes is the size of the largest fleet whose nodes and pairs are all shown.
const manyNodes = 30

// writeMany summarises a large fleet in at most one screen of text. What is unhealthy comes first.
func writeMany(out io.Writer, m *coordinator.Matrix) {
	s := m.Summarize()
	fmt.Fprintf(out, "%d nodes: %d here, %d gone; %d pairs are measured and related\n",
		s.Nodes, s.Here, s.Nodes-s.Here, s.Related)
	const faults = 8
	writeHealth(out, m, faults)
	fmt.Fprintln(out, "\nbound, ± µs of the node whose cycles are asked for:")
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(w, "\tpairs\tleast\tmedian\t90 %\t99 %\tlargest\t")
	for _, d := range distributions(s) {
		if d.Count > 0 {
			at := func(percent int) string { return boundText(d.At(percent)) }
			fmt.Fprintf(w, "%s\t%d\t%s\t%s\t%s\t%s\t%s\t\n", d.name, d.Count, at(0), at(50),
				at(90), at(99), at(100))
		}
	}
	w.Flush()
	fmt.Fprintln(out, "\nthe measured pairs with the largest bounds:")
	w = tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	for _, p := range s.Largest {
		fmt.Fprintf(w, "  %s\tinto %s\t± %s µs\t%s\t%s old\n", p.From, p.Into,
			boundText(p.Bound_ns), p.Verdict, ago(p.Age_ns))
	}
	w.Flush()
	fmt.Fprintln(out, "\none pair: cprof nodes FROM INTO; all measured pairs: cprof nodes --pairs")
}

// distribution is a named distribution of bounds.
type distribution struct {
	name string
	coordinator.Distribution
}

// distributions returns the bounds of all measured pairs, and those of a random sample of pairs.
func distributions(s *coordinator.Summary) []distribution {
	return []distribution{{"measured pairs, both ways", s.Measured}, {"random pairs", s.Sampled}}
}

// distributionFigure draws how many pairs have at most a given bound.
func distributionFigure(m *coordinator.Matrix) plot.Figure {
	panel := plot.Panel{
		Title: "How many pairs have at most this bound",
		X:     plot.Axis{Label: "bound, ±", Unit: "µs", Log: true},
		Y:     plot.Axis{Label: "pairs", Unit: "%", From: 0, To: 100},
	}
	all := m.Summarize()
	for i, d := range distributions(all) {
		s := plot.Series{Name: d.name, Kind: plot.Line, Color: []plot.Color{plot.Blue,
			plot.Orange}[i]}
		for k, bound := range d.Bounds_ns {
			s.X = append(s.X, bound/1000)
			s.Y = append(s.Y, 100*float64(k+1)/float64(len(d.Bounds_ns)))
		}
		if len(s.X) > 0 {
			panel.Series = append(panel.Series, s)
		}
	}
	return plot.Figure{
		Title: fmt.Sprintf("Bounds between the %d nodes of a fleet", all.Nodes),
		Subtitle: m.At.UTC().Format("2006-01-02 15:04:05 UTC") +
			"; half-widths in cycles of the node whose cycles are asked for, as time",
		Panels: []plot.Panel{panel},
	}
}

// showPair shows the bound of one pair of nodes, and the relations from which that bound was
// computed. If svg names a file, showPair also draws these relations into the file.
func showPair(
	cmd *cobra.Command, link *link, from, into string, asJSON bool, svg string,
) error {
	var a coordinator.PairAnswer
	request := coordinator.PairRequest{From: from, Into: into}
	if err := link.Ask(cmd.Context(), coordinator.AskPair, request, &a); err != nil {
		return err
	}
	p, out := a.Pair, cmd.OutOrStdout()
	if svg != "" {
		if err := command.WriteWhole(svg, []byte(pathImage(&a))); err != nil {
			return fmt.Errorf("write the paths of a pair: %w", err)
		}
	}
	switch {
	case asJSON:
		if err := printJSON(cmd, a); err != nil {
			return err
		}
	case p.Hi_cycles == 0:
		fmt.Fprintf(out, "%s into %s: no bound yet: %s\n", from, into, command.Line(p.Unhealthy))
	default:
		writePair(out, &a)
	}
	if p.Verdict != "consistent" {
		return fmt.Errorf("%s with %s is not consistent: %w", from, into, command.ErrPartial)
	}
	return nil
}

// pairText sums up the answer about a pair.
func pairText(a *coordinator.PairAnswer) string {
	bounds := fmt.Sprintf("± %s µs now, and ± %s µs %s ago", boundText(a.Pair.Bound_ns),
		boundText(a.NewestBound_ns), ago(a.NewestAge_ns))
	if a.Ago_ns > 0 {
		bounds = fmt.Sprintf("± %s µs %s ago, and unknown now", boundText(a.Pair.Bound_ns),
			ago(a.Ago_ns))
	}
	return fmt.Sprintf("%s into %s: %s, %s", a.Pair.From, a.Pair.Into, bounds, a.Pair.Verdict)
}

// hopText says how exact one relation is, and how old.
func hopText(h coordinator.Hop) []string {
	text := []string{"± " + boundText(h.Bound_ns) + " µs", h.Verdict, ago(h.Age_ns) + " old"}
	if h.GivenUp {
		text[2] += ", given up"
	}
	return text
}

func writePair(out io.Writer, a *coordinator.PairAnswer) {
	p := &a.Pair
	fmt.Fprintln(out, pairText(a))
	fmt.Fprintf(out, "when %s showed %d, %s was in [%d, %d]\n", p.From, p.Reading_cycles, p.Into,
		p.Lo_cycles, p.Hi_cycles)
	fmt.Fprintf(out, "lower end by %s\n", strings.Join(p.LoPath, " → "))
	fmt.Fprintf(out, "upper end by %s\n", strings.Join(p.HiPath, " → "))
	if a.Why != "" {
		fmt.Fprintf(out, "the two are measured with each other: %s\n", command.Line(a.Why))
	}
	fmt.Fprintln(out, "\nthis rests on measured pairs, with the bounds of their newest trains:")
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	for _, h := range a.Hops {
		fmt.Fprintf(w, "  %s\tinto %s\t%s\t%s\n", h.From, h.Into,
			strings.Join(hopText(h), "\t"), command.Line(h.Why))
	}
	w.Flush()
}
