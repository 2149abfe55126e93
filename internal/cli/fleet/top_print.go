package fleet

import (
	"fmt"
	"slices"
	"strings"
	"text/tabwriter"
	"time"
	"unicode/utf8"

	"github.com/cloudprofiler/cloudprofiler/analysis"
	"github.com/cloudprofiler/cloudprofiler/internal/command"
	"github.com/cloudprofiler/cloudprofiler/watch"
)

// maxColumns is the number of columns that a picture may take.
const maxColumns = 120

// pictureLines returns a picture as text, in lines of at most width columns.
func pictureLines(p *watch.Picture, width int) []string {
	lines := headLines(p)
	if len(p.Spans) > 0 {
		lines = append(append(lines, ""), spanLines(p, width)...)
	}
	if len(p.Points) > 0 {
		lines = append(append(lines, ""), pointLines(p)...)
	}
	if len(p.Notes) > 0 {
		lines = append(lines, "")
	}
	for _, note := range p.Notes {
		lines = append(lines, wrapText(note, width)...)
	}
	for i := range lines {
		lines[i] = clipText(strings.TrimRight(lines[i], " "), width)
	}
	return lines
}

func headLines(p *watch.Picture) []string {
	head := "no run is open"
	if p.Run != "" {
		head = fmt.Sprintf("run %s: %s", p.Run, p.Phase)
	}
	senders, all := 0, watch.Rate{}
	for _, n := range p.Nodes {
		if n.Age_ns >= 0 {
			senders++
			all.Lo, all.Hi = all.Lo+n.Rate.Lo, all.Hi+n.Rate.Hi
		}
	}
	head += "; " + counted(senders, "agent")
	if senders > 0 {
		head += "; " + rateText(all) + " events/s"
	}
	lines := []string{head}
	if p.Age_ns < 0 {
		return append(lines, "no latencies yet")
	}
	about := fmt.Sprintf("the last %v, at most %.2f s old; %s", time.Duration(p.Window_ns),
		command.RoundUp(float64(p.Age_ns)/1e9, 2), counted(p.Tuples, "tuple"))
	if p.OneIn > 1 {
		about += fmt.Sprintf(", at least 1 in %s", command.Thousands(p.OneIn))
	}
	about += "; seconds by the counter of " + p.Reference.Node
	if p.Reference.Lo_hz == p.Reference.Hi_hz {
		about += ", at its nominal rate"
	}
	return append(lines, about)
}

func counted(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return command.Thousands(uint64(n)) + " " + what + "s"
}

// rateText prints events a second, rounded outward.
func rateText(r watch.Rate) string {
	switch {
	case isUnbounded(r) && r.Lo < 1:
		return "?"
	case isUnbounded(r):
		return command.Thousands(uint64(r.Lo)) + "…?"
	}
	lo, hi := command.Thousands(uint64(r.Lo)), command.Thousands(uint64(r.Hi+1-1e-9))
	if lo == hi || r.Lo == r.Hi {
		return lo
	}
	return lo + "…" + hi
}

// isUnbounded reports whether a rate has no useful upper bound (watch.Rate).
func isUnbounded(r watch.Rate) bool { return r.Hi > 1e15 }

func spanLines(p *watch.Picture, width int) []string {
	some := slices.ContainsFunc(p.Spans, func(l watch.Span) bool { return lackPhrase(l) != "" })
	const others = 66 // columns of the other cells
	names := max(width-others, 20)
	head := "span\ttuples\tp50\tp99\tto, events/s"
	if some {
		names = max(names-14, 20)
		head += "\tseen"
	}
	rows := []string{head}
	reference := analysis.Reference{
		Node: p.Reference.Node, FrequencyLo_hz: p.Reference.Lo_hz,
		FrequencyHi_hz: p.Reference.Hi_hz,
	}
	for _, l := range p.Spans {
		p50, p99 := "?", "?"
		if l.Tuples > 0 {
			p50, p99 = intervalText(reference, l.P50), intervalText(reference, l.P99)
		}
		if l.Estimate {
			p50, p99 = p50+" !", p99+" !"
		}
		row := fmt.Sprintf("%s\t%s\t%s\t%s\t%s", spanText(l, names),
			command.Thousands(uint64(l.Tuples)), p50, p99, rateText(l.To_s))
		if some {
			row += "\t" + lackPhrase(l)
		}
		rows = append(rows, row)
	}
	return table(rows)
}

// lackPhrase returns words that say why the figures of a span (watch.Span) lack some tuples of the
// sample.
func lackPhrase(l watch.Span) string {
	switch {
	case l.Unknown > 0:
		return fmt.Sprintf("%d not related", l.Unknown)
	case l.LeftOut > 0 && l.Tuples == 0:
		return "withheld: " + l.Some
	}
	return l.Some
}

func intervalText(r analysis.Reference, s watch.Interval) string {
	return r.Seconds(analysis.Interval{Lo_cycles: s.Lo_cycles, Hi_cycles: s.Hi_cycles})
}

// spanText names the two points of a span, in at most the given number of columns.
func spanText(l watch.Span, columns int) string {
	from, to, arrow := l.From, l.To, " → "
	if l.Whole {
		columns -= 2
	}
	if over := utf8.RuneCountInString(from+arrow+to) - columns; over > 0 {
		half := (columns - utf8.RuneCountInString(arrow)) / 2
		from = clipText(from, max(half, columns-utf8.RuneCountInString(arrow+to)))
		to = clipText(to, columns-utf8.RuneCountInString(from+arrow))
	}
	if l.Whole {
		return "[" + from + arrow + to + "]"
	}
	return from + arrow + to
}

func pointLines(p *watch.Picture) []string {
	rows := []string{"point\tevents\tevents/s\tdropped\thandler"}
	for _, one := range p.Points {
		events, dropped := command.Thousands(one.Events), command.Thousands(one.Dropped)
		if isUnbounded(one.Rate) { // the counts of a node are not known yet
			events, dropped = "≥ "+events, "≥ "+dropped
		}
		rows = append(rows, fmt.Sprintf("%s\t%s\t%s\t%s\t%s", clipText(one.Name, 48), events,
			rateText(one.Rate), dropped, strings.Join(one.Handlers, ", ")))
	}
	return table(rows)
}

func table(rows []string) []string {
	var b strings.Builder
	w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	for _, row := range rows {
		fmt.Fprintln(w, row)
	}
	w.Flush()
	return strings.Split(strings.TrimRight(b.String(), "\n"), "\n")
}

// clipText shortens a text to at most the given number of columns.
func clipText(text string, columns int) string {
	if runes := []rune(text); len(runes) > columns {
		return string(runes[:max(columns-1, 0)]) + "…"
	}
	return text
}

// wrapText breaks a text into lines at spaces. It indents all lines except the first.
func wrapText(text string, columns int) (lines []string) {
	line := ""
	for _, word := range strings.Fields(text) {
		if line != "" && utf8.RuneCountInString(line)+1+utf8.RuneCountInString(word) > columns {
			lines = append(lines, line)
			line = "  " + word
			continue
		}
		line = strings.TrimLeft(line+" "+word, " ")
		if len(lines) > 0 && !strings.HasPrefix(line, "  ") {
			line = "  " + line
		}
	}
	return append(lines, line)
}
