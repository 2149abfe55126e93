package plot

import (
	"bytes"
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"
	"unicode/utf8"
)

// These are sizes in pixels. An image can be scaled to any size.
const (
	imageWidth  = 760
	leftMargin  = 72 // from the image's left side to the axes: space for the labels of y
	rightMargin = 20
	panelHeight = 220
	textSize    = 12
)

// WriteSVG writes the figure as an SVG image.
func (f Figure) WriteSVG(w io.Writer) error {
	_, err := w.Write(f.svg())
	return err
}

// style contains every color twice, for light and dark. CSS variables would be shorter, but several
// programs that show SVG do not support them.
const style = `
text{font:12px system-ui,-apple-system,"Segoe UI",Roboto,"DejaVu Sans",sans-serif;fill:#24292f}
.bg{fill:#ffffff}
.title{font-size:16px;font-weight:600}
.panel{font-weight:600}
.dim{fill:#57606a}
.grid{stroke:#d8dee4;stroke-width:1;fill:none}
.axis{stroke:#6e7781;stroke-width:1;fill:none}
.line{fill:none;stroke-width:1.6;stroke-linejoin:round;stroke-linecap:round}
.band{stroke-width:.6;fill-opacity:.22}
.rule{fill:none;stroke-width:1.4;stroke-dasharray:2 4}
.point{fill:none;stroke-width:1.2}
.c1{stroke:#0b62b0}.c2{stroke:#b35900}.c3{stroke:#007a5a}.c4{stroke:#8a3ffc}` +
	`.c5{stroke:#3f8fc9}.c6{stroke:#cf222e}.c7{stroke:#6e7781}
.f1{fill:#0b62b0}.f2{fill:#d97706}.f3{fill:#00926c}.f4{fill:#8a3ffc}` +
	`.f5{fill:#3f8fc9}.f6{fill:#cf222e}.f7{fill:#6e7781}
@media screen and (prefers-color-scheme:dark){
text{fill:#e6edf3}
.bg{fill:#0d1117}
.dim{fill:#9198a1}
.grid{stroke:#2a313c}
.axis{stroke:#7d8590}
.c1{stroke:#6cb6ff}.c2{stroke:#f0a04b}.c3{stroke:#4cd3a5}.c4{stroke:#c297ff}` +
	`.c5{stroke:#96d0ff}.c6{stroke:#ff7b72}.c7{stroke:#9198a1}
.f1{fill:#6cb6ff}.f2{fill:#f0a04b}.f3{fill:#4cd3a5}.f4{fill:#c297ff}` +
	`.f5{fill:#96d0ff}.f6{fill:#ff7b72}.f7{fill:#9198a1}
}
`

// dashes distinguish lines on paper, where colors may not.
var dashes = [colors + 1]string{3: "7 3", 4: "2 3", 5: "9 3 2 3", 6: "4 2", 7: "1 4"}

func (f Figure) svg() []byte {
	var body canvas
	y := 14.0
	if f.Title != "" {
		y = body.paragraph(f.Title, "title", 16, y+4, 20)
	}
	if f.Subtitle != "" {
		y = body.paragraph(f.Subtitle, "dim", 16, y, 16)
	}
	for _, p := range f.Panels {
		y += 8
		y = body.panel(p, y)
	}
	for _, note := range f.Notes {
		y = body.paragraph(note, "dim", 16, y, 16)
	}
	height := int(math.Ceil(y + 6))

	var out canvas
	out.printf(`<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" `+
		`width="%d" height="%d" role="img" aria-labelledby="t d">`,
		imageWidth, height, imageWidth, height)
	out.printf("\n<title id=\"t\">%s</title>\n<desc id=\"d\">%s</desc>\n<style>%s</style>\n",
		escapeXML(f.Title), escapeXML(f.describe()), style)
	out.printf("<rect class=\"bg\" width=\"%d\" height=\"%d\"/>\n", imageWidth, height)
	out.Write(body.Bytes())
	out.printf("</svg>\n")
	return out.Bytes()
}

// describe returns a description for screen readers.
func (f Figure) describe() string {
	parts := []string{}
	if f.Subtitle != "" {
		parts = append(parts, f.Subtitle)
	}
	for _, p := range f.Panels {
		var names []string
		for _, s := range p.Series {
			if s.Name != "" {
				names = append(names, s.Name)
			}
		}
		parts = append(parts, fmt.Sprintf("%s over %s: %s", p.Y.title(), p.X.title(),
			strings.Join(names, ", ")))
	}
	return strings.Join(append(parts, f.Notes...), ". ")
}

// A canvas collects the elements of an image.
type canvas struct{ bytes.Buffer }

func (c *canvas) printf(format string, args ...any) { fmt.Fprintf(&c.Buffer, format, args...) }

func (c *canvas) text(s, class, anchor string, x, y float64) {
	c.printf(`<text class="%s" x="%s" y="%s"`, class, formatPixels(x), formatPixels(y))
	if anchor != "" {
		c.printf(` text-anchor="%s"`, anchor)
	}
	c.printf(">%s</text>\n", escapeXML(s))
}

// paragraph writes a text in lines that fit the image, and returns the y of the next line.
func (c *canvas) paragraph(s, class string, x, y, lineHeight float64) float64 {
	size := float64(textSize)
	if class == "title" {
		size = 16
	}
	var line string
	for _, word := range strings.Fields(s) {
		if line != "" && textWidth(line+" "+word, size) > imageWidth-x-rightMargin {
			c.text(line, class, "", x, y+lineHeight*0.8)
			y, line = y+lineHeight, ""
		}
		if line != "" {
			line += " "
		}
		line += word
	}
	if line == "" {
		return y
	}
	c.text(line, class, "", x, y+lineHeight*0.8)
	return y + lineHeight
}

// textWidth returns an estimate of a text's width. The estimate is high, because the reader's font
// is unknown.
func textWidth(s string, size float64) float64 {
	return 0.58 * size * float64(utf8.RuneCountInString(s))
}

// A frame is the place of a panel's axes in the image.
type frame struct {
	x, y          scale
	top           float64
	width, height float64
}

func (f frame) px(v float64) float64 { return leftMargin + f.x.place(v)*f.width }
func (f frame) py(v float64) float64 { return f.top + (1-f.y.place(v))*f.height }

func (c *canvas) panel(p Panel, y float64) float64 {
	if p.Title != "" {
		c.text(p.Title, "panel", "", 16, y+12)
		y += 20
	}
	series := p.colored()
	y = c.legend(series, y)
	if label := p.Y.title(); label != "" {
		c.text(label, "dim", "", 16, y+12)
		y += 26
	}
	f := frame{top: y, width: imageWidth - leftMargin - rightMargin, height: panelHeight}
	var ok bool
	f.x, f.y, ok = p.axes(8, 5)
	if !ok {
		c.printf("<rect class=\"axis\" x=\"%d\" y=\"%s\" width=\"%s\" height=\"%d\"/>\n",
			leftMargin, formatPixels(y), formatPixels(f.width), 60)
		c.text("nothing to show", "dim", "middle", leftMargin+f.width/2, y+34)
		return y + 80
	}
	c.grid(f)
	for _, s := range series {
		c.series(f, p, s)
	}
	bottom := f.top + f.height
	c.printf("<path class=\"axis\" d=\"M%d %sV%sH%s\"/>\n", leftMargin, formatPixels(f.top),
		formatPixels(bottom), formatPixels(leftMargin+f.width))
	if label := p.X.title(); label != "" {
		c.text(label, "dim", "middle", leftMargin+f.width/2, bottom+36)
		return bottom + 56
	}
	return bottom + 36
}

func (c *canvas) grid(f frame) {
	bottom := f.top + f.height
	for _, t := range f.y.ticks {
		y := f.top + (1-t.at)*f.height
		c.printf("<path class=\"grid\" d=\"M%d %sH%s\"/>\n", leftMargin, formatPixels(y),
			formatPixels(leftMargin+f.width))
		c.text(t.label, "dim", "end", leftMargin-8, y+4)
	}
	for _, t := range f.x.ticks {
		x := leftMargin + t.at*f.width
		c.printf("<path class=\"axis\" d=\"M%s %sv5\"/>\n", formatPixels(x), formatPixels(bottom))
		c.text(t.label, "dim", "middle", min(x, imageWidth-textWidth(t.label, textSize)/2-2),
			bottom+19)
	}
}

// legend writes the name of each series and shows how it is drawn. It returns the y of the next
// line.
func (c *canvas) legend(series []Series, y float64) float64 {
	x := 16.0
	lines := 0
	for _, s := range series {
		if s.Name == "" {
			continue
		}
		width := 36 + textWidth(s.Name, textSize)
		if lines == 0 || x+width > imageWidth-rightMargin && x > 16 {
			x, lines = 16, lines+1
		}
		middle := y + float64(lines-1)*18 + 8
		switch s.Kind {
		case Line:
			c.printf("<path class=\"line c%d\"%s d=\"M%s %sh22\"/>\n", s.Color, dash(s),
				formatPixels(x), formatPixels(middle))
		case Band:
			c.printf("<rect class=\"band c%d f%d\" x=\"%s\" y=\"%s\" width=\"22\" "+
				"height=\"10\"/>\n", s.Color, s.Color, formatPixels(x), formatPixels(middle-5))
		case Points:
			c.printf("<path class=\"point c%d\" d=\"%s\"/>\n",
				s.Color, markerPath(s.Color, x+11, middle))
		case Rule:
			c.printf("<path class=\"rule c%d\" d=\"M%s %sv14\"/>\n",
				s.Color, formatPixels(x+11), formatPixels(middle-7))
		}
		c.text(s.Name, "", "", x+28, middle+4)
		x += width + 12
	}
	if lines == 0 {
		return y
	}
	return y + float64(lines)*18 + 4
}

func dash(s Series) string {
	if dashes[s.Color] == "" {
		return ""
	}
	return ` stroke-dasharray="` + dashes[s.Color] + `"`
}

func (c *canvas) series(f frame, p Panel, s Series) {
	switch s.Kind {
	case Line:
		c.line(f, p, s)
	case Band:
		c.band(f, p, s)
	case Points:
		seen := map[[2]int]bool{}
		var d strings.Builder
		for i := range s.length() {
			if !p.X.takes(s.X[i]) || !p.Y.takes(s.Y[i]) {
				continue
			}
			x, y := f.px(s.X[i]), f.py(s.Y[i])
			at := [2]int{int(x), int(y)}
			if !seen[at] {
				seen[at] = true
				d.WriteString(markerPath(s.Color, x, y))
			}
		}
		if d.Len() > 0 {
			c.printf("<path class=\"point c%d\" d=\"%s\"/>\n", s.Color, d.String())
		}
	case Rule:
		last := math.NaN()
		for _, v := range s.X {
			if x := f.px(v); p.X.takes(v) && !(math.Abs(x-last) < 1) {
				last = x
				c.printf("<path class=\"rule c%d\" d=\"M%s %sv%s\"/>\n", s.Color, formatPixels(x),
					formatPixels(f.top), formatPixels(f.height))
			}
		}
	}
}

// line draws the values of a series, with an interruption at each gap.
func (c *canvas) line(f frame, p Panel, s Series) {
	for _, run := range p.runs(s) {
		var d strings.Builder
		path := byPixel(run,
			func(i int) (x, lo, hi float64) { y := f.py(s.Y[i]); return f.px(s.X[i]), y, y })
		for i, at := range path {
			command := "L"
			if i == 0 {
				command = "M"
			}
			d.WriteString(command + formatPixels(at.x) + " " + formatPixels(at.first))
			if at.lo != at.hi {
				d.WriteString("V" + formatPixels(at.lo) + "V" + formatPixels(at.hi) + "V" +
					formatPixels(at.last))
			}
		}
		if len(path) == 1 && path[0].lo == path[0].hi {
			d.WriteString("h.01") // a stroke of no length; its round cap makes a dot
		}
		c.printf("<path class=\"line c%d\"%s d=\"%s\"/>\n", s.Color, dash(s), d.String())
	}
}

func (c *canvas) band(f frame, p Panel, s Series) {
	for _, run := range p.runs(s) {
		path := byPixel(run, func(i int) (x, lo, hi float64) {
			return f.px(s.X[i]), f.py(s.Hi[i]),
				f.py(s.Lo[i])
		})
		var d strings.Builder
		for i, at := range path {
			command := "L"
			if i == 0 {
				command = "M"
			}
			d.WriteString(command + formatPixels(at.x) + " " + formatPixels(at.lo))
		}
		for i := len(path) - 1; i >= 0; i-- {
			d.WriteString("L" + formatPixels(path[i].x) + " " + formatPixels(path[i].hi))
		}
		c.printf("<path class=\"band c%d f%d\" d=\"%sZ\"/>\n", s.Color, s.Color, d.String())
	}
}

// runs returns the indices of a series, split at its gaps.
func (p Panel) runs(s Series) [][]int {
	var runs [][]int
	var run []int
	for i := range s.length() {
		ok := p.X.takes(s.X[i])
		if s.Kind == Band {
			ok = ok && p.Y.takes(s.Lo[i]) && p.Y.takes(s.Hi[i])
		} else {
			ok = ok && p.Y.takes(s.Y[i])
		}
		if ok {
			run = append(run, i)
		} else if len(run) > 0 {
			runs, run = append(runs, run), nil
		}
	}
	if len(run) > 0 {
		runs = append(runs, run)
	}
	return runs
}

// A column contains what a series shows at one pixel. In pixels lo is the upper end, because y
// grows downward.
type column struct{ x, first, last, lo, hi float64 }

// byPixel thins the values of a run: neighbors at the same pixel become one column.
func byPixel(run []int, at func(i int) (x, lo, hi float64)) []column {
	var path []column
	for _, i := range run {
		x, lo, hi := at(i)
		if n := len(path); n > 0 && math.Floor(path[n-1].x) == math.Floor(x) {
			c := &path[n-1]
			c.lo, c.hi, c.last = min(c.lo, lo), max(c.hi, hi), lo
			continue
		}
		path = append(path, column{x, lo, lo, lo, hi})
	}
	return path
}

// markerPath returns an SVG path. Each color has a shape of its own.
func markerPath(color Color, x, y float64) string {
	switch color {
	case Orange:
		return fmt.Sprintf("M%s %sl4 4m0-4l-4 4", formatPixels(x-2), formatPixels(y-2))
	case Green:
		return fmt.Sprintf("M%s %sl2.4 4.2h-4.8z", formatPixels(x), formatPixels(y-2.6))
	case Purple:
		return fmt.Sprintf("M%s %sh4v4h-4z", formatPixels(x-2), formatPixels(y-2))
	case Red:
		return fmt.Sprintf("M%s %sl3 3l-3 3l-3-3z", formatPixels(x), formatPixels(y-3))
	case Sky:
		return fmt.Sprintf("M%s %sh4m-2-2v4", formatPixels(x-2), formatPixels(y))
	}
	return fmt.Sprintf("M%s %sa1.8 1.8 0 1 0 3.6 0a1.8 1.8 0 1 0-3.6 0z", formatPixels(x-1.8),
		formatPixels(y))
}

// formatPixels formats a coordinate, rounded to a tenth of a pixel.
func formatPixels(v float64) string {
	text := strconv.FormatFloat(v, 'f', 1, 64)
	return strings.TrimSuffix(strings.Replace(text, "-0.0", "0.0", 1), ".0")
}

// escapeXML makes any text valid in XML. XML allows no control characters, not even escaped ones.
func escapeXML(s string) string {
	s = strings.Map(func(r rune) rune {
		if r < ' ' || r == utf8.RuneError || r == 0xFFFE || r == 0xFFFF {
			return ' '
		}
		return r
	}, s)
	return strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;", `"`, "&quot;").Replace(s)
}
