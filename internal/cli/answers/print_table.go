package answers

import (
	"cmp"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/cloudprofiler/cloudprofiler/analysis"
)

const (
	screenWidth = 120 // width of the table, in characters
	cellWidth   = 12  // width of the column of durations
	nodesWidth  = 20  // largest width of the column of nodes
	nameWidth   = 28  // smallest width of the column of spans
)

// tablePercents are the percentiles of the table.
var tablePercents = []float64{50, 99, 99.9}

// A tableRow is a span in the table. mark is ! if the figures are not proven, and ? if the figures
// are not those of all tuples. remark says why.
type tableRow struct {
	mark, share string
	cells       []string
	name, nodes string
	remark      string
}

// printTable prints the spans of each path, slowest first, in one unit.
func printTable(out io.Writer, a *analysis.Answer) {
	var medians []analysis.Interval
	for _, spans := range [][]analysis.Span{a.Spans, a.EndToEnd} {
		for i := range spans {
			if p50, ok := spans[i].All.Percentiles.At(50); ok {
				medians = append(medians, p50)
			}
		}
	}
	unit := a.Reference.UnitOf(medians)
	type group struct {
		title string
		rows  []tableRow
	}
	var groups []group
	var all []tableRow
	for _, g := range groupSpans(a) {
		next := group{title: "other spans"}
		if g.path != nil {
			next.title = tuplesOf(g.path)
		}
		for _, l := range g.spans {
			next.rows = append(next.rows, rowOf(a, g.path, l, unit))
		}
		groups, all = append(groups, next), append(all, next.rows...)
	}
	head := tableRow{share: "share, %", cells: []string{"p50", "p99", "p99.9", "max"},
		name: "span, " + unit.Name, nodes: "nodes"}
	width := newWidths(append(all, head))
	fmt.Fprintln(out)
	width.print(out, head)
	for _, g := range groups {
		printFolded(out, "  ", 4, g.title)
		for _, r := range g.rows {
			width.print(out, r)
		}
	}
	for _, mark := range []struct{ mark, means string }{
		{"!", "an estimate, or impossible"}, {"?", "not of all tuples"},
	} {
		title := "\n" + mark.mark + " " + mark.means + "\n"
		for _, r := range all {
			if r.mark == mark.mark {
				fmt.Fprint(out, title)
				printFolded(out, "  ", 4, r.name+": "+r.remark)
				title = ""
			}
		}
	}
}

// spanGroup is a path and its rows of the table; path is nil for spans that belong to no path.
type spanGroup struct {
	path  *analysis.Path
	spans []*analysis.Span
}

// groupSpans orders all spans for the table. In each path, the spans from end to end come first.
// The other spans follow in the order of the path's list: by share, or by median if no share is
// known.
func groupSpans(a *analysis.Answer) (groups []spanGroup) {
	listed := map[*analysis.Span]bool{}
	for i := range a.Paths {
		g := spanGroup{path: &a.Paths[i]}
		for k := range a.EndToEnd {
			if l := &a.EndToEnd[k]; slices.Contains(g.path.To, l.To) && !listed[l] {
				g.spans, listed[l] = append(g.spans, l), true
			}
		}
		for _, ranked := range g.path.Spans {
			l := &a.Spans[ranked.Span]
			g.spans, listed[l] = append(g.spans, l), true
		}
		if len(g.spans) > 0 {
			groups = append(groups, g)
		}
	}
	var rest spanGroup
	for _, spans := range [][]analysis.Span{a.EndToEnd, a.Spans} {
		for i := range spans {
			if l := &spans[i]; !listed[l] {
				rest.spans = append(rest.spans, l)
			}
		}
	}
	if len(rest.spans) > 0 {
		groups = append(groups, rest)
	}
	return groups
}

// rowOf describes a span.
func rowOf(a *analysis.Answer, path *analysis.Path, l *analysis.Span,
	unit analysis.Unit) tableRow {
	r := tableRow{mark: " ", share: "-", name: spanName(l), nodes: nodesOf(l),
		remark: verdictOf(l, &l.All)}
	if l.Kind == "gap" {
		r.name += ", a gap"
		r.remark = fmt.Sprintf("past %s, whose logs do not have every tuple: %s",
			strings.Join(l.Past, ", "), r.remark)
	}
	if skipsPoints(a, l) {
		r.name += pastWords
	}
	switch d := &l.All; {
	case d.Suspect+d.After > 0:
		r.mark = "!"
	case d.Withheld+d.Unplaced > 0, l.Completeness.Kept.Words() != "":
		r.mark = "?"
	}
	if share, ok := shareOf(a, path, l); ok {
		r.share = share
	}
	for _, percent := range tablePercents {
		text := "-"
		if p, ok := l.All.Percentiles.At(percent); ok {
			text = a.Reference.In(unit, p, cellWidth)
		}
		r.cells = append(r.cells, text)
	}
	most := "-"
	if l.All.Count > 0 {
		most = a.Reference.In(unit, l.All.Max, cellWidth)
	}
	r.cells = append(r.cells, most)
	return r
}

// shareOf returns the part of the end-to-end time that a span takes, in percent. If the part is not
// known, ok is false.
func shareOf(a *analysis.Answer, path *analysis.Path, l *analysis.Span) (text string, ok bool) {
	if path == nil {
		return "", false
	}
	for _, ranked := range path.Spans {
		if s := ranked.Share; s != nil && &a.Spans[ranked.Span] == l {
			return percentText(s.Lo*100, s.Hi*100), true
		}
	}
	whole := l.Origin == "" && l.Kind != "gap" && slices.Contains(path.From, l.From) &&
		slices.Contains(path.To, l.To) && !skipsPoints(a, l)
	return "100", whole
}

// pastWords follows the name of a span for which skipsPoints returns true. Without these words, the
// span would have the same name as the row from end to end.
const pastWords = ", direct"

// skipsPoints reports whether a span skips other points of its path. This is so if other tuples
// passed further points between the span's ends. Then the table also has a row from end to end,
// which describes all of these tuples.
func skipsPoints(a *analysis.Answer, l *analysis.Span) bool {
	if l.Kind == "end-to-end" || l.Kind == "waiting" || l.Kind == "gap" {
		return false
	}
	return slices.ContainsFunc(a.EndToEnd, func(e analysis.Span) bool {
		return e.From == l.From && e.To == l.To && e.Origin == ""
	})
}

// percentText prints an interval of percents, with a decimal if it is narrow. The printed interval
// contains the given one.
func percentText(least, most float64) string {
	decimals := 1
	if most-least > 2 {
		decimals = 0
	}
	scale := math.Pow10(decimals)
	middle := math.Round((least/2+most/2)*scale) / scale
	bound := math.Ceil(max(most-middle, middle-least)*scale) / scale
	return fmt.Sprintf("%.*f±%.*f", decimals, middle, decimals, bound)
}

// nodesOf names the pairs of nodes of a span, the pair with the most tuples first. If not all pairs
// fit, nodesOf names the first and says how many more there are.
func nodesOf(l *analysis.Span) string {
	pairs := slices.Clone(l.Pairs)
	slices.SortStableFunc(pairs, func(x, y analysis.NodePair) int {
		return cmp.Compare(y.Count, x.Count)
	})
	var names []string
	for _, p := range pairs {
		name := p.From
		if p.From != p.To {
			name += "→" + p.To
		}
		names = append(names, name)
	}
	text := strings.Join(names, ", ")
	if n := len(names) - 1; n > 0 && utf8.RuneCountInString(text) > nodesWidth {
		more := fmt.Sprintf(" +%d", n)
		return shorten(names[0], nodesWidth-len(more)) + more
	}
	return cmp.Or(text, "-")
}

// widths are the widths of the table's columns, in characters.
type widths struct {
	share       int
	cells       []int
	name, nodes int
}

func newWidths(rows []tableRow) (w widths) {
	w.cells = make([]int, len(tablePercents)+1)
	longest := 0
	for _, r := range rows {
		w.share = max(w.share, utf8.RuneCountInString(r.share))
		for i, text := range r.cells {
			w.cells[i] = max(w.cells[i], utf8.RuneCountInString(text))
		}
		w.nodes = max(w.nodes, min(utf8.RuneCountInString(r.nodes), nodesWidth))
		longest = max(longest, utf8.RuneCountInString(r.name))
	}
	taken := 1 + 1 + w.share + 2 + w.nodes
	for _, cell := range w.cells {
		taken += 2 + cell
	}
	w.name = max(min(longest, screenWidth-taken-2), nameWidth)
	return w
}

func (w widths) print(out io.Writer, r tableRow) {
	line := fmt.Sprintf("%-1s %*s", r.mark, w.share, r.share)
	for i, text := range r.cells {
		line += fmt.Sprintf("  %*s", w.cells[i], text)
	}
	line += fmt.Sprintf("  %-*s  %s", w.name, shortSpan(r.name, w.name), shorten(r.nodes, w.nodes))
	fmt.Fprintln(out, strings.TrimRight(line, " "))
}

// shortSpan shortens the name of a span, so that a reader can still recognize both ends. It cuts
// each end, and keeps what follows the ends.
func shortSpan(name string, characters int) string {
	from, to, found := strings.Cut(name, " → ")
	to, rest, comma := strings.Cut(to, ", ")
	if comma {
		rest = ", " + rest
	}
	room := characters - utf8.RuneCountInString(" → "+rest)
	if n := utf8.RuneCountInString(name); n <= characters || !found || room < 16 {
		return shorten(name, characters)
	}
	first, second := utf8.RuneCountInString(from), utf8.RuneCountInString(to)
	first, second = min(first, max(room/2, room-second)), min(second, max(room-room/2, room-first))
	return shorten(from, first) + " → " + shorten(to, second) + rest
}

// shorten removes the middle of a text that has more than the given number of characters.
func shorten(text string, characters int) string {
	all := []rune(text)
	if len(all) <= characters {
		return text
	}
	half := (characters - 1) / 2
	return string(all[:characters-1-half]) + "…" + string(all[len(all)-half:])
}
