package page

import (
	"math"
	"strconv"
	"unicode/utf8"

	"github.com/cloudprofiler/cloudprofiler/blackbox/link"
)

// A drawing has a tree on the left, a row for each call, and bars on the right.
type drawing struct {
	title string // of the axis
	unit  string
	end   float64 // of the axis, which begins at 0
	rows  []row
}

type row struct {
	depth       int
	name        string
	probability float64 // of the link to the call above
	about       string  // what a pointer shows
	label       string  // beside the bars
	bars        []bar
}

type bar struct {
	class    string
	from, to float64
}

// These are lengths in pixels.
const (
	rowHeight  = 24
	indent     = 18
	letter     = 7.2 // average width
	chartWidth = 560
	labelWidth = 190
	top        = 26
	axisHeight = 22
)

func (p *page) draw(d *drawing) {
	left := 0.0
	for _, r := range d.rows {
		left = max(left, indent*float64(r.depth+1)+letter*float64(utf8.RuneCountInString(r.name)))
	}
	left = math.Ceil(left) + 70 // for the probability
	height := top + rowHeight*len(d.rows) + axisHeight
	p.add("<div class=\"scroll\"><svg width=\"%.0f\" height=\"%d\" role=\"img\" "+
		"aria-label=\"%s\">\n", left+chartWidth+labelWidth, height, text(d.title))
	p.add("<text class=\"soft\" x=\"%.0f\" y=\"14\">%s</text>\n", left, text(d.title))
	x := func(v float64) float64 {
		if !(d.end > 0) {
			return left
		}
		return left + chartWidth*min(max(v/d.end, 0), 1)
	}
	step := stepOf(d.end)
	for v := 0.0; step > 0 && v <= d.end*1.0001; v += step {
		p.add("<path class=\"grid\" d=\"M%.1f %dV%d\"/>", x(v), top-4, height-axisHeight)
		p.add("<text class=\"soft\" x=\"%.1f\" y=\"%d\" text-anchor=\"middle\">%s %s</text>\n",
			x(v), height-5, strconv.FormatFloat(v, 'g', 6, 64), d.unit)
	}
	var above []int // numbers of the rows above, by depth
	for i, r := range d.rows {
		y := top + rowHeight*i + rowHeight/2
		above = append(above[:min(r.depth, len(above))], i)
		p.add("<g><title>%s: %s</title>", text(r.name), text(r.about))
		nameX := indent*float64(r.depth) + 8
		class := ""
		if r.probability < link.Said {
			class = "doubt"
		}
		if r.depth > 0 {
			from := top + rowHeight*above[r.depth-1] + rowHeight/2 + 8
			p.connect(nameX-indent+8, float64(from), nameX-3, float64(y), r.probability, class)
		}
		p.add("<text x=\"%.1f\" y=\"%d\">%s</text>", nameX, y+4, text(r.name))
		if r.probability < 0.995 {
			p.add("<text class=\"%s\" x=\"%.0f\" y=\"%d\" text-anchor=\"end\">%.2f</text>",
				or(class, "soft"), left-12, y+4, r.probability)
		}
		end := left
		for k, b := range r.bars {
			if b.to < b.from {
				continue
			}
			height, width := 14, max(x(b.to)-x(b.from), 0.8)
			if b.class == "network" && k == 0 {
				height = 6 // the network surrounds the program
			}
			p.add("<rect class=\"%s\" x=\"%.1f\" y=\"%d\" width=\"%.1f\" height=\"%d\" "+
				"fill-opacity=\"%.2f\"/>", b.class, x(b.from), y-height/2, width, height,
				0.25+0.75*r.probability)
			end = max(end, x(b.from)+width)
		}
		p.add("<text class=\"soft\" x=\"%.1f\" y=\"%d\">%s</text></g>\n", end+6, y+4, text(r.label))
	}
	p.add("</svg></div>\n")
}

// connect draws the line from a call to one that it led to. The surer the link, the thicker.
func (p *page) connect(x, y, toX, toY, probability float64, class string) {
	dash := ""
	if probability < link.Said {
		dash = " stroke-dasharray=\"4 3\""
	}
	p.add("<path class=\"%s\" d=\"M%.1f %.1fV%.1fH%.1f\" stroke-width=\"%.2f\"%s/>", class, x, y,
		toY, toX, 0.6+1.6*probability, dash)
}

func or(a, b string) string {
	if a != "" {
		return a
	}
	return b
}

// stepOf returns a round step that divides an axis into three to ten parts.
func stepOf(end float64) float64 {
	if !(end > 0) || math.IsInf(end, 0) {
		return 0
	}
	step := math.Pow(10, math.Floor(math.Log10(end)))
	for _, part := range []float64{1, 0.5, 0.2, 0.1} {
		if n := end / (step * part); n >= 3 {
			return step * part
		}
	}
	return step
}
