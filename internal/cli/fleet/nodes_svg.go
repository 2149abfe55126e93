package fleet

import (
	"fmt"
	"html"
	"math"
	"slices"
	"strings"

	"github.com/cloudprofiler/cloudprofiler/coordinator"
	"github.com/cloudprofiler/cloudprofiler/tscratio"
)

// heatMap draws the matrix as one self-contained SVG image. It does not use package plot, whose
// axes have numbers: both axes of this image have names. The color shows the bound, on a
// logarithmic scale. Each cell also contains the number, for readers who cannot tell the colors
// apart.
func heatMap(m *coordinator.Matrix) string {
	const side, top, left = 54, 110, 130
	n := len(m.Nodes)
	var b strings.Builder
	width, height := left+n*side+20, top+n*side+70
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" width="%d" height="%d" `+
		`viewBox="0 0 %[1]d %[2]d" role="img">`+"\n", width, height)
	b.WriteString(`<style>svg{background:#fff;font:12px sans-serif}text{fill:#222}` +
		`.v{text-anchor:middle}.r{text-anchor:end}` +
		`@media(prefers-color-scheme:dark){svg{background:#111}text{fill:#ddd}}` +
		`.d{fill:#111}.l{fill:#fff}</style>` + "\n")
	fmt.Fprintf(&b, "<title>Bounds between the nodes of a fleet</title>\n")
	fmt.Fprintf(&b, `<text x="10" y="20">Bound of the row's readings in the column's cycles, `+
		`± µs at that node's nominal rate; %s</text>`+"\n",
		html.EscapeString(m.At.UTC().Format("2006-01-02 15:04:05 UTC")))
	at := map[string]int{}
	for i, node := range m.Nodes {
		at[node.Name] = i
		name := html.EscapeString(node.Name)
		fmt.Fprintf(&b, `<text class="r" x="%d" y="%d">%s</text>`+"\n", left-8, top+i*side+side/2+4,
			name)
		fmt.Fprintf(&b, `<text transform="translate(%d %d) rotate(-45)">%s</text>`+"\n",
			left+i*side+side/2, top-8, name)
	}
	lo, hi := math.Inf(1), 0.0
	for _, p := range m.Pairs {
		if p.Hi_cycles != 0 && p.Bound_ns > 0 {
			lo, hi = min(lo, p.Bound_ns), max(hi, p.Bound_ns)
		}
	}
	for _, p := range m.Pairs {
		if p.NotMeasured() {
			continue
		}
		x, y := left+at[p.Into]*side, top+at[p.From]*side
		share := 0.0
		if hi > lo {
			share = math.Log(p.Bound_ns/lo) / math.Log(hi/lo)
		}
		fill, text := "#cccccc", "d"
		if p.Hi_cycles != 0 {
			// Larger bounds get deeper colors, as people expect.
			fill = fmt.Sprintf("rgb(%d,%d,%d)", int(230-share*200), int(240-share*180),
				int(250-share*120))
			if share > 0.5 {
				text = "l"
			}
		}
		stroke := "none"
		if p.Verdict != tscratio.Consistent.String() || p.Old {
			stroke = "#d55e00"
		}
		fmt.Fprintf(&b,
			`<g><title>%s</title><rect x="%d" y="%d" width="%d" height="%d" fill="%s" `+
				`stroke="%s" stroke-width="2"/><text class="v %s" x="%d" y="%d">%s</text></g>`+"\n",
			html.EscapeString(fmt.Sprintf("%s in cycles of %s: %s, %s, %s",
				p.From, p.Into, p.Verdict, p.Path(), p.Unhealthy)),
			x+1, y+1, side-2, side-2, fill, stroke, text, x+side/2, y+side/2+4,
			html.EscapeString(cell(p)))
	}
	fmt.Fprintf(&b, `<text x="10" y="%d">! suspect   * over a third node   ~ old   ? no bound   `+
		`empty: not measured; framed: not consistent, or old</text>`+"\n", height-40)
	if hi > 0 {
		fmt.Fprintf(&b, `<text x="10" y="%d">pale: %s µs   deep: %s µs</text>`+"\n",
			height-20, boundText(lo), boundText(hi))
	}
	b.WriteString("</svg>\n")
	return b.String()
}

// pathImage draws the paths from which the bound of a pair was computed, as one self-contained SVG
// image with a row of nodes for each path. A dashed line is a relation that is not consistent, or
// was given up.
func pathImage(a *coordinator.PairAnswer) string {
	type row struct {
		name string
		path tscratio.Path
	}
	rows := []row{{"lower end", a.Pair.LoPath}, {"upper end", a.Pair.HiPath}}
	if slices.Equal(a.Pair.LoPath, a.Pair.HiPath) {
		rows = []row{{"both ends", a.Pair.LoPath}}
	}
	const step, high, left, top = 190, 110, 110, 90
	most := max(len(a.Pair.LoPath), len(a.Pair.HiPath), 3)
	width, height := 2*left+(most-1)*step, top+len(rows)*high
	var b strings.Builder
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" width="%d" height="%d" `+
		`viewBox="0 0 %[1]d %[2]d" role="img">`+"\n", width, height)
	b.WriteString(`<style>svg{background:#fff;font:12px sans-serif}text{fill:#222}` +
		`line{stroke:#0072b2;stroke-width:2}.x{stroke:#d55e00;stroke-dasharray:6 4}` +
		`.m{text-anchor:middle}circle{fill:#0072b2}` +
		`@media(prefers-color-scheme:dark){svg{background:#111}text{fill:#ddd}}</style>` + "\n")
	title := html.EscapeString(pairText(a))
	fmt.Fprintf(&b, "<title>%s</title>\n", title)
	fmt.Fprintf(&b, `<text x="10" y="20">%s</text>`+"\n", title)
	fmt.Fprintf(&b, `<text x="10" y="38">%s; each line is a measured pair, with the bound of its `+
		`newest train</text>`+"\n", html.EscapeString(a.At.UTC().Format("2006-01-02 15:04:05 UTC")))
	for r, row := range rows {
		y := top + r*high
		fmt.Fprintf(&b, `<text x="10" y="%d">%s</text>`+"\n", y+4, row.name)
		for i, node := range row.path {
			x := left + i*step
			if i > 0 {
				at := slices.IndexFunc(a.Hops, func(h coordinator.Hop) bool {
					return h.From == row.path[i-1] && h.Into == node
				})
				if at >= 0 {
					drawHop(&b, a.Hops[at], x-step, x, y)
				}
			}
			fmt.Fprintf(&b, `<circle cx="%d" cy="%d" r="6"/><text class="m" x="%[1]d" y="%[3]d">`+
				"%[4]s</text>\n", x, y, y-14, html.EscapeString(node))
		}
	}
	b.WriteString("</svg>\n")
	return b.String()
}

func drawHop(b *strings.Builder, h coordinator.Hop, x1, x2, y int) {
	class := ""
	if h.GivenUp || h.Verdict != tscratio.Consistent.String() {
		class = ` class="x"`
	}
	fmt.Fprintf(b, `<line%s x1="%d" y1="%d" x2="%d" y2="%[3]d"/>`+"\n", class, x1+6, y, x2-6)
	for i, text := range hopText(h) {
		fmt.Fprintf(b, `<text class="m" x="%d" y="%d">%s</text>`+"\n", (x1+x2)/2, y+16+15*i,
			html.EscapeString(text))
	}
}
