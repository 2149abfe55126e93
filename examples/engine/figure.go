package engine

import (
	"cmp"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/cloudprofiler/cloudprofiler/analysis"
	"github.com/cloudprofiler/cloudprofiler/internal/plot"
)

// draw draws distributions of three kinds of times: transfers between operators, the spans in which
// tuples waited, and the longest span about which the engine makes claims.
func (d *Demonstration) draw(name, file string, hops, path, claims *analysis.Answer) error {
	f := plot.Figure{
		Title: "Latency in the advertising benchmark on " + name,
		Subtitle: fmt.Sprintf("%d events a second, on %d virtual nodes of one machine",
			d.PerSecond, len(hops.Nodes)),
		Panels: []plot.Panel{
			{Title: "from one operator to the next", Series: transfers(hops)},
			{Title: "where tuples waited", Series: d.waitingSpans(path)},
			{Title: "what " + name + " says of itself", Series: d.claimedSpan(claims)},
		},
		Notes: []string{"a line is at most 1/16 to the right of what was measured"},
	}
	for i := range f.Panels {
		f.Panels[i].X = plot.Axis{Label: "latency", Unit: "ms", Log: true, From: 1e-3, To: 1e4}
		f.Panels[i].Y = plot.Axis{Label: "share of tuples", Unit: "%", From: 0, To: 100}
	}
	out, err := os.Create(file)
	if err != nil {
		return fmt.Errorf("draw: %w", err)
	}
	return cmp.Or(f.WriteSVG(out), out.Close())
}

// transfers returns the distributions of all transfers between the engine's operators.
func transfers(a *analysis.Answer) []plot.Series {
	local, remote := map[int64]uint64{}, map[int64]uint64{}
	add := func(to map[int64]uint64, of *analysis.Durations) {
		if of != nil {
			for _, b := range of.Highs {
				to[b.Hi_cycles] += b.Count
			}
		}
	}
	for _, s := range a.Spans {
		if s.Kind == "transfer" && s.Origin == "" && !ofLoad(s.From) && !ofJob(s.From) {
			add(local, s.Local)
			add(remote, s.Remote)
		}
	}
	return []plot.Series{
		cumulatedLine(a, "on one node", local), cumulatedLine(a, "between nodes", remote),
	}
}

// ofLoad reports whether a point belongs to the load generator. ofJob reports whether a point
// belongs to the job: the configuration of the Java agent gives those points names that begin with
// "job.". All other points belong to the engine.
func ofLoad(point string) bool { return strings.HasPrefix(point, "generator/") }
func ofJob(point string) bool  { return strings.HasPrefix(point, "job.") }

// cumulatedLine returns a line that shows, for each duration, the share of durations that are at
// most as long.
func cumulatedLine(a *analysis.Answer, name string, counts map[int64]uint64) plot.Series {
	line := plot.Series{Name: name, Kind: plot.Line}
	var ends []int64
	total, below := uint64(0), uint64(0)
	for end, n := range counts {
		ends = append(ends, end)
		total += n
	}
	slices.Sort(ends)
	for _, end := range ends {
		below += counts[end]
		_, ms := milliseconds(a.Reference, analysis.Interval{Lo_cycles: end, Hi_cycles: end})
		line.X = append(line.X, max(ms, 1e-3))
		line.Y = append(line.Y, 100*float64(below)/float64(total))
	}
	return line
}

func spanOf(a *analysis.Answer, from, to string) (analysis.Span, bool) {
	i := slices.IndexFunc(a.Spans, func(s analysis.Span) bool {
		return s.From == from && s.To == to && s.Origin == ""
	})
	if i < 0 {
		return analysis.Span{}, false
	}
	return a.Spans[i], true
}

func lineOf(a *analysis.Answer, name string, s analysis.Span) plot.Series {
	counts := map[int64]uint64{}
	for _, b := range s.All.Highs {
		counts[b.Hi_cycles] += b.Count
	}
	return cumulatedLine(a, name, counts)
}

// waitingSpans returns the distributions of the spans in d.Path, in which events may wait.
func (d *Demonstration) waitingSpans(a *analysis.Answer) (lines []plot.Series) {
	for _, edge := range d.Path {
		if s, ok := spanOf(a, edge[0], edge[1]); ok {
			lines = append(lines, lineOf(a, edge[0]+" → "+edge[1], s))
		}
	}
	return lines
}

// claimedSpan returns the measured distribution of the span d.Whole, and the engine's claims about
// that span.
func (d *Demonstration) claimedSpan(a *analysis.Answer) (series []plot.Series) {
	for _, c := range d.claims {
		if c.From != d.Whole[0] || c.To != d.Whole[1] {
			continue
		}
		if s, ok := spanOf(a, c.From, c.To); ok && len(series) == 0 {
			series = append(series, lineOf(a, c.From+" → "+c.To+", measured", s))
		}
		series = append(series, plot.Series{
			Name: c.Name + ", " + c.of(), Kind: plot.Rule, X: []float64{c.Lo_ms, c.Hi_ms},
		})
	}
	return series
}
