package engine

import (
	"context"
	"fmt"
	"io"
	"slices"
	"text/tabwriter"

	"github.com/cloudprofiler/cloudprofiler/analysis"
	"github.com/cloudprofiler/cloudprofiler/runs"
)

// A Claim is a latency that an engine states about itself.
type Claim struct {
	Name     string // the engine's name for the latency
	From, To string // the points of the span that the claim is about
	// Percent says which percentile the engine states. 0 is the mean.
	Percent float64
	// Lo_ms and Hi_ms are the smallest and the largest value that the engine's instances state.
	Lo_ms, Hi_ms float64
}

func (c Claim) of() string {
	if c.Percent == 0 {
		return "mean"
	}
	return fmt.Sprintf("p%g", c.Percent)
}

// compare prints what the engine claims about a run beside the measured values. If picture names a
// file, compare also draws both into that file.
func (d *Demonstration) compare(
	ctx context.Context, w io.Writer, name, kept, picture string, hops *analysis.Answer,
) error {
	if len(d.claims) == 0 {
		return nil
	}
	run, err := runs.Open(kept)
	if err != nil {
		return err
	}
	defer run.Close()
	var edges [][2]string
	for _, c := range d.claims {
		if edge := [2]string{c.From, c.To}; !slices.Contains(edges, edge) {
			edges = append(edges, edge)
		}
	}
	o, about := analysis.Options{Edges: edges, OnlyEdges: true}, "all events"
	if d.OfRecent {
		o.Filter.IDs, about = d.recent, "the last three fifths of the events"
	}
	answer, err := analysis.Run(ctx, run, o)
	if err != nil {
		return err
	}
	fmt.Fprintf(w, "\nwhat %s says of itself, beside what was measured of %s\n", name, about)
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, name+"\t\tsays\tmeasured\toff by\tspan")
	for _, c := range d.claims {
		measured, ok := spanOf(answer, c.From, c.To)
		if !ok {
			return fmt.Errorf("compare %q: no tuple passed %s and %s", c.Name, c.From, c.To)
		}
		c.print(t, answer.Reference, measured.All)
	}
	if err := t.Flush(); err != nil || picture == "" {
		return err
	}
	path, err := analysis.Run(ctx, run, analysis.Options{Edges: d.Path, OnlyEdges: true})
	if err != nil {
		return err
	}
	return d.draw(name, picture, hops, path, answer)
}

func (c Claim) print(w io.Writer, r analysis.Reference, measured analysis.Durations) {
	at := measured.Mean
	if c.Percent != 0 {
		at, _ = measured.Percentiles.At(c.Percent)
	}
	lo_ms, hi_ms := milliseconds(r, at)
	fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s → %s\n", c.Name, c.of(),
		span(c.Lo_ms, c.Hi_ms, "%.3g"), r.Seconds(at),
		span(c.Lo_ms-hi_ms, c.Hi_ms-lo_ms, "%+.3g"), c.From, c.To)
}

// milliseconds converts an interval of cycles to milliseconds. The frequency is an interval, too,
// so this widens the duration's interval.
func milliseconds(r analysis.Reference, i analysis.Interval) (lo, hi float64) {
	shortest, longest := r.FrequencyHi_hz, r.FrequencyLo_hz
	if i.Lo_cycles < 0 {
		shortest = r.FrequencyLo_hz
	}
	if i.Hi_cycles < 0 {
		longest = r.FrequencyHi_hz
	}
	return float64(i.Lo_cycles) / shortest * 1e3, float64(i.Hi_cycles) / longest * 1e3
}

// span prints an interval of milliseconds. If both ends look the same, it prints one number.
func span(lo, hi float64, format string) string {
	a, b := fmt.Sprintf(format, lo), fmt.Sprintf(format, hi)
	if a == b {
		return a + " ms"
	}
	return a + " to " + b + " ms"
}
