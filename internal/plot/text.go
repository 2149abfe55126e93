package plot

import (
	"bytes"
	"io"
	"math"
	"strings"
	"unicode/utf8"
)

const (
	textRows   = 12 // rows of text in a panel
	leastWidth = 40
)

// seriesSymbols are the characters of the series, by color. A band is shaded.
var seriesSymbols = [colors + 1]rune{' ', '•', 'x', '▴', '▫', '+', '◆', '·'}

// WriteText writes the figure as text for a terminal with the given number of columns, at least 40.
func (f Figure) WriteText(w io.Writer, columns int) error {
	columns = max(columns, leastWidth)
	var out bytes.Buffer
	line := func(s string) { out.WriteString(strings.TrimRight(s, " ") + "\n") }
	if f.Title != "" {
		line(printable(f.Title))
	}
	if f.Subtitle != "" {
		line(printable(f.Subtitle))
	}
	for _, p := range f.Panels {
		line("")
		for _, s := range p.text(columns) {
			line(s)
		}
	}
	if len(f.Notes) > 0 {
		line("")
	}
	for _, note := range f.Notes {
		line(printable(note))
	}
	_, err := w.Write(out.Bytes())
	return err
}

func (p Panel) text(columns int) (lines []string) {
	if p.Title != "" {
		lines = append(lines, printable(p.Title))
	}
	series := p.colored()
	var legend []string
	for _, s := range series {
		if s.Name != "" {
			legend = append(legend, string(symbol(s))+" "+printable(s.Name))
		}
	}
	if label := p.Y.title(); label != "" {
		lines = append(lines, printable(label))
	}
	x, y, ok := p.axes(max(2, columns/14), 4)
	if !ok {
		return append(lines, "  nothing to show")
	}
	margin := 0
	for _, t := range y.ticks {
		margin = max(margin, utf8.RuneCountInString(t.label))
	}
	width := columns - margin - 3
	cells := newCells(width, textRows)
	for _, s := range series {
		cells.draw(p, s, x, y)
	}
	labels := make([]string, textRows)
	for _, t := range y.ticks {
		labels[textRows-1-cell(t.at, textRows)] = t.label
	}
	for row := range textRows {
		edge := "│"
		if labels[row] != "" {
			edge = "┤"
		}
		lines = append(lines, pad(labels[row], margin)+" "+edge+string(cells.rows[row]))
	}
	lines = append(lines, strings.Repeat(" ", margin)+" └"+strings.Repeat("─", width))
	under := []rune(strings.Repeat(" ", columns))
	free := 0
	for _, t := range x.ticks {
		label := []rune(t.label)
		at := min(margin+2+cell(t.at, width)-len(label)/2, columns-len(label))
		if at < free {
			continue
		}
		copy(under[at:], label)
		free = at + len(label) + 1
	}
	lines = append(lines, string(under))
	if label := p.X.title(); label != "" {
		lines = append(lines, strings.Repeat(" ", margin+2)+printable(label))
	}
	if len(legend) > 0 {
		lines = append(lines, strings.Repeat(" ", margin+2)+strings.Join(legend, "   "))
	}
	return lines
}

// cells are the characters of a panel, from the top row down.
type cells struct {
	width int
	rows  [][]rune
}

func newCells(width, rows int) *cells {
	c := &cells{width: width}
	for range rows {
		c.rows = append(c.rows, []rune(strings.Repeat(" ", width)))
	}
	return c
}

// cell returns which of n cells contains a position from 0 to 1.
func cell(at float64, n int) int {
	return min(n-1, max(0, int(math.Round(at*float64(n-1)))))
}

func (c *cells) set(x, y int, mark rune) { c.rows[len(c.rows)-1-y][x] = mark }

func (c *cells) draw(p Panel, s Series, x, y scale) {
	mark := symbol(s)
	rows := len(c.rows)
	switch s.Kind {
	case Points:
		for i := range s.length() {
			if p.X.takes(s.X[i]) && p.Y.takes(s.Y[i]) {
				c.set(cell(x.place(s.X[i]), c.width), cell(y.place(s.Y[i]), rows), mark)
			}
		}
	case Rule:
		for _, v := range s.X {
			if p.X.takes(v) {
				for row := range rows {
					c.set(cell(x.place(v), c.width), row, mark)
				}
			}
		}
	case Line, Band:
		ends := func(i int) (lo, hi int) {
			if s.Kind == Band {
				return cell(y.place(s.Lo[i]), rows), cell(y.place(s.Hi[i]), rows)
			}
			at := cell(y.place(s.Y[i]), rows)
			return at, at
		}
		for _, run := range p.runs(s) {
			for n, i := range run {
				at := cell(x.place(s.X[i]), c.width)
				lo, hi := ends(i)
				c.column(at, lo, hi, mark)
				if n == 0 {
					continue
				}
				before := cell(x.place(s.X[run[n-1]]), c.width)
				oldLo, oldHi := ends(run[n-1])
				for between := before + 1; between < at; between++ {
					share := float64(between-before) / float64(at-before)
					c.column(between, mix(oldLo, lo, share), mix(oldHi, hi, share), mark)
				}
			}
		}
	}
}

func (c *cells) column(x, lo, hi int, mark rune) {
	for row := min(lo, hi); row <= max(lo, hi); row++ {
		c.set(x, row, mark)
	}
}

func mix(a, b int, share float64) int { return int(math.Round(float64(a) + share*float64(b-a))) }

func symbol(s Series) rune {
	switch s.Kind {
	case Band:
		return '░'
	case Rule:
		return '┊'
	}
	return seriesSymbols[s.Color]
}

func pad(s string, width int) string {
	return strings.Repeat(" ", max(0, width-utf8.RuneCountInString(s))) + s
}

// printable replaces control characters, so that a text cannot contain commands to the terminal.
func printable(s string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' || r >= 0x7f && r < 0xa0 || r == utf8.RuneError {
			return ' '
		}
		return r
	}, s)
}
