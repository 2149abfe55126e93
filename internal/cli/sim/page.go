package sim

import (
	"bytes"
	"fmt"
	"html"
	"io"
	"math"
	"slices"
	"strings"

	"github.com/cloudprofiler/cloudprofiler/internal/plot"
	"github.com/cloudprofiler/cloudprofiler/sim"
)

// page shows what the observers of simulations report.
type page struct {
	name     string // of the configuration
	set      []string
	sections []*section
}

// section is one simulation of a page.
type section struct {
	choices  string
	byCycles bool // times are numbers of cycles
	series   []series
	answers  []answer
}

// series contains the numbers of one kind that an observer reported, such as the smallest degree.
// Its field what names that kind.
type series struct {
	observer, what, unit string
	x, y                 []float64
}

type answer struct{ observer, sentence string }

// add adds a section for a simulation to the page. choices are the values that distinguish this
// simulation from the others of the same configuration.
func (p *page) add(choices string) *section {
	p.sections = append(p.sections, &section{choices: choices})
	return p.sections[len(p.sections)-1]
}

func (s *section) note(observer, name string, at sim.Time, value float64) {
	// A series has a name, or a name, a comma and a unit.
	what, unit := name, ""
	if i := strings.LastIndex(name, ", "); i >= 0 {
		what, unit = name[:i], name[i+2:]
	}
	i := slices.IndexFunc(s.series, func(o series) bool {
		return o.observer == observer && o.what == what
	})
	if i < 0 {
		i = len(s.series)
		s.series = append(s.series, series{observer: observer, what: what, unit: unit})
	}
	one := &s.series[i]
	one.x, one.y = append(one.x, float64(at)), append(one.y, value)
}

func (s *section) answer(observer, sentence string) {
	for i := range s.answers {
		if s.answers[i].observer == observer {
			s.answers[i].sentence = sentence
			return
		}
	}
	s.answers = append(s.answers, answer{observer, sentence})
}

// If the largest value of an axis is more than 20 times its smallest value (the constant wide), the
// axis is logarithmic. An axis with zeros is not logarithmic, since it could not show them.
const wide = 20

// figure has one panel for each kind of numbers, since these kinds have different units. In each
// panel, each simulation has a line.
func (p *page) figure() plot.Figure {
	var f plot.Figure
	for k, s := range p.sections {
		x := plot.Axis{Label: "simulated time", Unit: "s"}
		scale := 1e-9
		if s.byCycles {
			x, scale = plot.Axis{Label: "cycle", Whole: true}, 1
		}
		for _, one := range s.series {
			title := one.what
			if p.observers() > 1 {
				title = strings.TrimPrefix(one.observer, "control.") + ": " + title
			}
			i := slices.IndexFunc(f.Panels, func(p plot.Panel) bool { return p.Title == title })
			if i < 0 {
				i = len(f.Panels)
				f.Panels = append(f.Panels, plot.Panel{Title: title, X: x,
					Y: plot.Axis{Label: one.unit, Zero: true}})
			}
			drawn := plot.Series{Kind: plot.Line, Name: s.choices, Y: one.y,
				Color: plot.Color(k%7) + plot.Blue}
			for _, at := range one.x {
				drawn.X = append(drawn.X, at*scale)
			}
			f.Panels[i].Series = append(f.Panels[i].Series, drawn)
		}
	}
	for i := range f.Panels {
		least, most := math.Inf(1), 0.0
		for _, s := range f.Panels[i].Series {
			least, most = min(least, slices.Min(s.Y)), max(most, slices.Max(s.Y))
		}
		if least > 0 && most > wide*least {
			f.Panels[i].Y.Log, f.Panels[i].Y.Zero = true, false
		}
	}
	return f
}

// observers returns how many observers report numbers.
func (p *page) observers() int {
	all := map[string]bool{}
	for _, s := range p.sections {
		for _, one := range s.series {
			all[one.observer] = true
		}
	}
	return len(all)
}

const pageHead = `<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width">
<title>Simulation of %[1]s</title>
<style>
body { font: 17px/1.5 system-ui, sans-serif; margin: 0 auto; max-width: 58em; padding: 1em }
body { color: #24292f; background: #fff }
h1 { font-size: 1.5em; margin: 0 0 .6em }
h2 { font-size: 1em; margin: 1.2em 0 0 }
.answer { font-size: 1.25em; margin: .2em 0 .8em } .dim { color: #57606a; font-size: .85em }
svg { width: 100%%; height: auto }
@media (prefers-color-scheme: dark) {
  body { color: #e6edf3; background: #0d1117 } .dim { color: #9198a1 }
}
</style>
<h1>Simulation of %[1]s</h1>
`

// write writes the page: first the answers, then the plots. The page is one file, and loads no
// others.
func (p *page) write(w io.Writer) error {
	var b bytes.Buffer
	fmt.Fprintf(&b, pageHead, html.EscapeString(p.name))
	for _, s := range p.sections {
		if s.choices != "" && len(s.answers) > 0 {
			fmt.Fprintf(&b, "<h2>%s</h2>\n", html.EscapeString(s.choices))
		}
		for _, a := range s.answers {
			fmt.Fprintf(&b, "<p class=\"answer\">%s</p>\n", html.EscapeString(a.sentence))
		}
	}
	if f := p.figure(); len(f.Panels) == 0 {
		b.WriteString("<p>No observer of this configuration reports numbers to draw.</p>\n")
	} else if err := f.WriteSVG(&b); err != nil {
		return err
	}
	if len(p.set) > 0 {
		fmt.Fprintf(&b, "<p class=\"dim\">Set: %s</p>\n",
			html.EscapeString(strings.Join(p.set, ", ")))
	}
	b.WriteString("</html>\n")
	_, err := w.Write(b.Bytes())
	return err
}
