package fleet

import (
	"fmt"
	"html"
	"math"
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
	fmt.Fprintf(&b, `<text x="10" y="%d">! suspect   * over a third node   ~ old   ? none; `+
		`framed: not consistent, or old</text>`+"\n", height-40)
	if hi > 0 {
		fmt.Fprintf(&b, `<text x="10" y="%d">pale: %s µs   deep: %s µs</text>`+"\n",
			height-20, boundText(lo), boundText(hi))
	}
	b.WriteString("</svg>\n")
	return b.String()
}
