package page

import (
	"bytes"
	_ "embed"
	"fmt"
	"html"
	"io"
	"strings"

	"github.com/cloudprofiler/cloudprofiler/analysis"
	"github.com/cloudprofiler/cloudprofiler/blackbox/link"
	"github.com/cloudprofiler/cloudprofiler/blackbox/paths"
)

//go:embed style.css
var style string

// MostPatterns is the largest number of patterns on a page.
const MostPatterns = 20

// Write writes the page of an answer about a run.
func Write(w io.Writer, run string, a *paths.Answer, r analysis.Reference) error {
	p := &page{reference: r}
	p.add("<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\n"+
		"<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"+
		"<title>Paths of %s</title>\n<style>\n%s</style></head><body>\n", text(run), style)
	p.add("<h1>Paths of %s</h1>\n", text(run))
	p.add("<p>%d requests follow %d patterns. Of %d links, %.1f %% are at least %g sure. "+
		"Durations are intervals in seconds, as a middle ± half of the width.</p>\n", a.Chosen,
		len(a.Patterns), a.Links, 100*float64(a.Said)/float64(max(a.Links, 1)), link.Said)
	p.add("<p class=\"soft\">The thicker the line to a call, the surer is the link. Links below "+
		"%g are dashed.<span class=\"key own\"></span>in the program"+
		"<span class=\"key network\"></span>in the network</p>\n", link.Said)
	var whole analysis.Interval
	for i := range a.Patterns {
		whole = sum(whole, a.Patterns[i].Whole.Total)
	}
	for i := range a.Patterns[:min(len(a.Patterns), MostPatterns)] {
		p.pattern(i, &a.Patterns[i], whole)
	}
	if left := len(a.Patterns) - MostPatterns; left > 0 {
		p.add("<p class=\"soft\">%d patterns that took less time are not shown.</p>\n", left)
	}
	for i := range a.Slowest {
		p.path(&a.Slowest[i])
	}
	p.add("</body></html>\n")
	_, err := p.html.WriteTo(w)
	return err
}

type page struct {
	html      bytes.Buffer
	reference analysis.Reference
}

func (p *page) add(format string, args ...any) { fmt.Fprintf(&p.html, format, args...) }

// text makes plain text safe in HTML. Names come from programs that nobody knows.
func text(s string) string { return html.EscapeString(strings.ToValidUTF8(s, "�")) }

func (p *page) seconds(i analysis.Interval) string {
	if s := p.reference.Seconds(i); s != "" {
		return s
	}
	return fmt.Sprintf("%d to %d cycles", i.Lo_cycles, i.Hi_cycles)
}

// pattern draws the tree of a pattern, with the mean time that a request waited for each call.
func (p *page) pattern(i int, t *paths.Pattern, all analysis.Interval) {
	from := t.From
	if from == "" {
		from = "outside"
	}
	p.add("<h2>Pattern %d: %d requests from %s</h2>\n", i+1, t.Requests, text(from))
	p.add("<p>%.1f %% of the time. Probability of a path: %.2f.", share(t.Whole.Total, all),
		t.Probability)
	if p50, ok := t.Whole.At(50); ok {
		p99, _ := t.Whole.At(99)
		p.add(" A request took %s (median), %s (p99).", p.seconds(p50), p.seconds(p99))
	}
	if t.Slow > 0 {
		p.add(" The slowest tenth took %s longer than the faster half, on average.",
			p.seconds(t.Slower))
	}
	p.add("</p>\n")
	d := drawing{title: "time that requests waited, share of the whole",
		unit: "%", end: 100}
	for k := range t.Calls {
		c := &t.Calls[k]
		own, network := share(c.WaitedOwn, t.Whole.Total), share(c.WaitedNetwork, t.Whole.Total)
		about := "not known"
		if m, ok := c.Own.At(50); ok {
			about = p.seconds(m)
		}
		d.rows = append(d.rows, row{depth: c.Depth, name: c.Program + on(c.Nodes),
			probability: c.Probability, label: fmt.Sprintf("%.1f %%", own+network),
			about: fmt.Sprintf("link %.2f; in the program: %.1f %%, median %s; network: %.1f %%",
				c.Probability, own, about, network),
			bars: []bar{{"own", 0, own}, {"network", own, own + network}}})
	}
	p.draw(&d)
}

func on(nodes []string) string {
	if len(nodes) == 0 {
		return ""
	}
	return " on " + strings.Join(nodes, ", ")
}

// path draws the time line of a path.
func (p *page) path(t *paths.Path) {
	p.add("<h2>Slow path: %s</h2>\n<p>It follows pattern %d. Its links are all right with "+
		"probability %.2f.</p>\n", text(p.seconds(*t.Whole)), t.Pattern+1, t.Probability)
	d := drawing{title: "time since the path began; beside each bar: time in the program itself",
		unit: "ms"}
	perUnit := (p.reference.FrequencyLo_hz/2 + p.reference.FrequencyHi_hz/2) / 1000
	if !(perUnit > 0) {
		perUnit, d.unit = 1, "cycles"
	}
	at := func(i *analysis.Interval) float64 { return middle(*i) / perUnit }
	for k := range t.Calls {
		c := &t.Calls[k]
		r := row{depth: c.Depth, name: c.To.Program, probability: c.Probability,
			about: fmt.Sprintf("link %.2f", c.Probability)}
		if c.To.Node != "" {
			r.name += " on " + c.To.Node
		}
		if c.RunnerUp > 0 {
			r.about += fmt.Sprintf("; another request: %.2f", c.RunnerUp)
		}
		if c.Sent != nil && c.Got != nil {
			r.bars = append(r.bars, bar{"network", at(c.Sent), at(c.Got)})
		} else if c.Sent != nil && c.Received != nil {
			r.bars = append(r.bars, bar{"network", at(c.Sent), at(c.Received)})
		}
		if c.Received != nil && c.Replied != nil {
			r.bars = append(r.bars, bar{"own", at(c.Received), at(c.Replied)})
		}
		if c.Own != nil {
			r.label = p.seconds(*c.Own)
			r.about += "; in the program itself: " + r.label
		}
		for _, b := range r.bars {
			d.end = max(d.end, b.to)
		}
		d.rows = append(d.rows, r)
	}
	p.draw(&d)
}

func sum(a, b analysis.Interval) analysis.Interval {
	return analysis.Interval{Lo_cycles: a.Lo_cycles + b.Lo_cycles,
		Hi_cycles: a.Hi_cycles + b.Hi_cycles}
}

func middle(i analysis.Interval) float64 { return float64(i.Lo_cycles)/2 + float64(i.Hi_cycles)/2 }

// share is the share of the middle of an interval in that of another, in percent.
func share(part, all analysis.Interval) float64 {
	if !(middle(all) > 0) {
		return 0
	}
	return 100 * middle(part) / middle(all)
}
