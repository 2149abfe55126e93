package answers

import (
	"fmt"
	"io"
	"math"
	"slices"
	"strings"

	"github.com/cloudprofiler/cloudprofiler/analysis"
	"github.com/cloudprofiler/cloudprofiler/tscratio"
)

// halves returns the middle of an interval and its bound.
func halves(i analysis.Interval) (middle int64, bound uint64) {
	width := uint64(i.Hi_cycles) - uint64(i.Lo_cycles)
	return i.Lo_cycles + int64(width/2), width/2 + width&1
}

func cyclesText(i analysis.Interval) string {
	middle, bound := halves(i)
	return fmt.Sprintf("%d ± %d", middle, bound)
}

func plural(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %s", n, pluralOf(what))
}

// pluralOf returns the plural of a word, or of the first word in "pair of claims".
func pluralOf(what string) string {
	first, rest, found := strings.Cut(what, " of ")
	if !found {
		return what + "s"
	}
	return first + "s of " + rest
}

// printAnswer prints an answer on one screen.
func printAnswer(w io.Writer, a *analysis.Answer) error {
	out := &strings.Builder{}
	made := uint64(0)
	for _, r := range a.Paths {
		if len(r.MadeOf) > 0 {
			made += r.Tuples
		}
	}
	fmt.Fprintf(out, "run %s: %s, %s, %d tuples", a.Run, plural(len(a.Nodes), "node"),
		plural(len(a.Channels), "channel"), a.Work.Tuples-made)
	if made > 0 {
		fmt.Fprintf(out, " and %d that were made of them", made)
	}
	fmt.Fprintln(out)
	chosen := "asked for"
	if a.Reference.Chosen {
		chosen = "chosen for the smallest bounds"
	}
	fmt.Fprintf(out, "cycles are those of node %s (%s)\n%s\n", a.Reference.Node, chosen,
		a.Reference.SecondsMean())
	printRelations(out, a)

	fmt.Fprintln(out)
	if len(a.Spans)+len(a.EndToEnd) == 0 {
		fmt.Fprintln(out, "no tuple was seen at two points: there are no durations")
	} else {
		printSpans(out, a)
		PrintPaths(out, a)
	}
	printTruth(out, a)
	printPoints(out, a)
	if l := a.Length; l != nil {
		until := "the last tuple"
		if l.Poison {
			until = "the last poison"
		}
		fmt.Fprintf(out, "\nrun length, from the first tuple (%s) to %s (%s): %s cycles",
			l.From, until, l.To, cyclesText(l.Interval))
		if s := a.Reference.Seconds(l.Interval); s != "" {
			fmt.Fprintf(out, ", %s", s)
		}
		fmt.Fprintf(out, "; %d tuples%s\n",
			l.Tuples, suspectText(l.Verdict == tscratio.Suspect.String()))
	}
	printCounters(out, a)
	printComparisons(out, a)
	printReturnTrips(out, a)
	printSlowest(out, a)
	if len(a.Missing) > 0 {
		fmt.Fprintln(out, "\nmissing")
		for _, m := range a.Missing {
			fmt.Fprintf(out, "  %s: %s\n", m.Part, m.Reason)
		}
	}
	if len(a.Findings) > 0 {
		fmt.Fprintln(out, "\nfindings")
		for _, f := range a.Findings {
			fmt.Fprintf(out, "  %s: %s\n", f.Kind, f.Text)
		}
	}
	_, err := io.WriteString(w, out.String())
	return err
}

// printRelations prints what the bounds rest on.
func printRelations(out io.Writer, a *analysis.Answer) {
	if len(a.Pairs) == 0 {
		return
	}
	suspect := 0
	var declared float64
	best, worst := &a.Pairs[0], &a.Pairs[0]
	for i := range a.Pairs {
		p := &a.Pairs[i]
		if p.Verdict != "consistent" {
			suspect++
		}
		if p.Bound_cycles < best.Bound_cycles {
			best = p
		}
		if p.Bound_cycles > worst.Bound_cycles {
			worst = p
		}
		declared = max(declared, p.Declared_ppm)
	}
	fmt.Fprintf(out, "%s of nodes related, median bound from %d cycles (%s, %s) to %d (%s, %s), "+
		"if rates wander by %g ppm at most within ±%g s: ",
		plural(len(a.Pairs), "pair"), best.Bound_cycles, best.A, best.B, worst.Bound_cycles,
		worst.A, worst.B, declared, a.Pairs[0].Window_s)
	if suspect == 0 {
		fmt.Fprintln(out, "the data agree")
	} else {
		fmt.Fprintf(out, "the data contradict it for %s\n", plural(suspect, "pair"))
	}
	if a.ThirdNodes == tscratio.ThirdAny {
		fmt.Fprintln(out, "bounds of two nodes are narrowed by what any other says of both: they "+
			"rest on every node of the run")
	}
}

func printSpans(out io.Writer, a *analysis.Answer) {
	width := spansWidth(a)
	fmt.Fprintf(out, "%-*s  %-11s %-7s %9s  %24s %24s %24s  %s\n", width, "from → to", "kind",
		"where", "tuples", "p50, cycles", "p50", "p99", "verdict")
	for _, spans := range [][]analysis.Span{a.Spans, a.EndToEnd} {
		for i := range spans {
			l := &spans[i]
			for _, group := range []struct {
				where string
				d     *analysis.Durations
			}{{"local", l.Local}, {"remote", l.Remote}} {
				if group.d == nil {
					continue
				}
				p50, ok := group.d.Percentiles.At(50)
				p99, _ := group.d.Percentiles.At(99)
				if !ok {
					fmt.Fprintf(out, "%-*s  %-11s %-7s %9d  %24s %24s %24s  %s\n",
						width, spanName(l), l.Kind, group.where, 0, "-", "", "",
						verdictOf(l, group.d))
					continue
				}
				fmt.Fprintf(out, "%-*s  %-11s %-7s %9d  %24s %24s %24s  %s\n",
					width, spanName(l), l.Kind, group.where, group.d.Count, cyclesText(p50),
					a.Reference.Seconds(p50), a.Reference.Seconds(p99), verdictOf(l, group.d))
			}
		}
	}
}

// slowSpans is how many spans of a path are named as slow.
const slowSpans = 3

// PrintPaths names the slowest spans of each path, and reports whether the bounds prove their
// order.
func PrintPaths(out io.Writer, a *analysis.Answer) {
	title := "\nslowest by the median\n"
	for _, r := range a.Paths {
		if len(r.Spans) < 2 {
			continue
		}
		fmt.Fprint(out, title)
		title = ""
		made := ""
		if len(r.MadeOf) > 0 {
			made = " that were made of others"
		}
		fmt.Fprintf(out, "  of %d tuples%s, from %s: ", r.Tuples, made, strings.Join(r.From, ", "))
		for i, ranked := range r.Spans[:min(len(r.Spans), slowSpans)] {
			l := &a.Spans[ranked.Span]
			p50, _ := l.All.Percentiles.At(50)
			switch {
			case i == 0 && ranked.Surely:
				fmt.Fprint(out, "surely ")
			case i == 0:
				fmt.Fprint(out, "perhaps ")
			case ranked.Surely:
				fmt.Fprint(out, ", then ")
			default:
				fmt.Fprint(out, ", then perhaps ")
			}
			text := a.Reference.Seconds(p50)
			if text == "" {
				text = cyclesText(p50) + " cycles"
			}
			if l.Lateness() {
				text += ", the load's own lateness"
			}
			if l.All.Suspect > 0 {
				text += ", suspect"
			}
			fmt.Fprintf(out, "%s (%s)", spanName(l), text)
		}
		fmt.Fprintln(out)
	}
}

// spanName returns the name of a span in tables.
func spanName(l *analysis.Span) string {
	text := l.From + " → " + l.To
	if l.Origin != "" {
		text += ", " + l.Origin + " origin"
	}
	return text
}

// spansWidth returns the width of the longest name.
func spansWidth(a *analysis.Answer) (width int) {
	for _, spans := range [][]analysis.Span{a.Spans, a.EndToEnd} {
		for i := range spans {
			width = max(width, len([]rune(spanName(&spans[i]))))
		}
	}
	return width
}

// printPoints lists the points at which tuples were lost, duplicated, late or otherwise
// conspicuous.
func printPoints(out io.Writer, a *analysis.Answer) {
	head := false
	for i := range a.Points {
		p := &a.Points[i]
		if p.Lost+p.Filtered+p.InFlight+p.Duplicates+p.Appeared+p.Disordered == 0 {
			continue
		}
		if !head {
			fmt.Fprintf(out, "\n%-24s %10s %10s %10s %10s %10s %10s %10s\n", "point", "tuples",
				"lost", "filtered", "in flight", "duplicate", "appeared", "late")
			head = true
		}
		fmt.Fprintf(out, "%-24s %10d %10d %10d %10d %10d %10d %10d", p.Name, p.Tuples, p.Lost,
			p.Filtered, p.InFlight, p.Duplicates, p.Appeared, p.Disordered)
		if p.Undecided != "" && p.Lost+p.InFlight > 0 {
			fmt.Fprintf(out, "  lost or not logged: %s", p.Undecided)
		}
		fmt.Fprintln(out)
	}
}

func printCounters(out io.Writer, a *analysis.Answer) {
	for i := range a.Counters {
		c := &a.Counters[i]
		if i == 0 {
			fmt.Fprintf(out, "\n%-32s %-12s %12s %14s\n", "counted", "node", "total", "a second")
		}
		var lo, hi int64
		var n uint64
		for _, p := range c.Periods {
			lo, hi, n = lo+p.Length.Lo_cycles, hi+p.Length.Hi_cycles, n+p.Count
		}
		rate := rateText(n, lo, hi, a.Reference)
		fmt.Fprintf(out, "%-32s %-12s %12d %14s\n", c.Channel, c.Node, c.Total, rate)
	}
}

// rateText returns the number of events a second, if n events were counted within an interval of
// cycles.
func rateText(n uint64, lo_cycles, hi_cycles int64, r analysis.Reference) string {
	if !(r.FrequencyLo_hz > 0) || lo_cycles <= 0 {
		return "-"
	}
	least := float64(n) / float64(hi_cycles) * r.FrequencyLo_hz
	most := float64(n) / float64(lo_cycles) * r.FrequencyHi_hz
	middle := math.Round(least/2 + most/2)
	return fmt.Sprintf("%.0f ± %.0f", middle, math.Ceil(max(most-middle, middle-least)))
}

// printReturnTrips prints the durations of tuples by return trips beside the durations of the same
// tuples by related counters.
func printReturnTrips(out io.Writer, a *analysis.Answer) {
	for i := range a.ReturnTrips {
		r := &a.ReturnTrips[i]
		if i == 0 {
			fmt.Fprintf(out, "\n%-40s %9s %10s  %24s %24s\n", "return trips, p50 in cycles",
				"tuples", "unanswered", "by return trip", "by related counters")
		}
		text := func(d *analysis.Durations) string {
			if p50, ok := d.Percentiles.At(50); ok {
				return cyclesText(p50)
			}
			return "-"
		}
		fmt.Fprintf(out, "%-40s %9d %10d  %24s %24s",
			fmt.Sprintf("%s on %s → %s on %s", r.From, r.FromNode, r.To, r.ToNode),
			r.ByReturnTrip.Count, r.Unanswered, text(&r.ByReturnTrip), text(&r.ByCounters))
		if r.Disagree > 0 {
			fmt.Fprintf(out, "  %d DISAGREE", r.Disagree)
		}
		fmt.Fprint(out, suspectText(r.ByReturnTrip.Suspect+r.ByCounters.Suspect > 0))
		fmt.Fprintln(out)
	}
}

func printSlowest(out io.Writer, a *analysis.Answer) {
	for i, way := range a.Slowest {
		if i == 0 {
			fmt.Fprintln(out, "\nslowest tuples, with the cycles since the event before")
		}
		fmt.Fprintf(out, "  %d: %s cycles", way.ID, cyclesText(way.Total))
		if s := a.Reference.Seconds(way.Total); s != "" {
			fmt.Fprintf(out, ", %s", s)
		}
		fmt.Fprint(out,
			suspectText(slices.ContainsFunc(way.Passed,
				func(p analysis.Passed) bool { return p.Verdict == tscratio.Suspect.String() })),
			"\n   ")
		for k, p := range way.Passed {
			if k > 0 {
				since := "?"
				if p.Since != nil {
					since = cyclesText(*p.Since)
				}
				fmt.Fprintf(out, " → (%s) ", since)
			}
			fmt.Fprintf(out, " %s on %s", p.Channel, p.Node)
		}
		fmt.Fprintln(out)
	}
}
