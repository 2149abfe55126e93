package answers

import (
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/cloudprofiler/cloudprofiler/analysis"
	"github.com/cloudprofiler/cloudprofiler/internal/command"
	"github.com/cloudprofiler/cloudprofiler/tscratio"
)

// middleAndBound returns the middle of an interval, and half of its width, which is the bound.
func middleAndBound(i analysis.Interval) (middle int64, bound uint64) {
	width := uint64(i.Hi_cycles) - uint64(i.Lo_cycles)
	return i.Lo_cycles + int64(width/2), width/2 + width&1
}

func cyclesText(i analysis.Interval) string {
	middle, bound := middleAndBound(i)
	return fmt.Sprintf("%d ± %d", middle, bound)
}

// printCycles prints all durations in cycles, and what the cycles and bounds rest on.
func printCycles(out io.Writer, a *analysis.Answer) {
	chosen := "asked for"
	if a.Reference.Chosen {
		chosen = "chosen for the smallest bounds"
	}
	fmt.Fprintln(out)
	printFolded(out, "", 2, fmt.Sprintf("cycles are those of node %s (%s)", a.Reference.Node,
		chosen))
	printFolded(out, "", 2, a.Reference.SecondsMean())
	if best, worst := narrowestAndWidest(a); best != nil {
		printFolded(out, "", 2, fmt.Sprintf("%s of nodes related, median bound from %d cycles "+
			"(%s, %s) to %d (%s, %s), %s", command.Plural(len(a.Pairs), "pair"),
			best.Bound_cycles, best.A,
			best.B, worst.Bound_cycles, worst.A, worst.B, describeAssumptions(a)))
	}
	for _, text := range describeClaims(a) {
		printFolded(out, "", 2, text)
	}
	for _, n := range a.Nodes {
		if where := n.Facts["programs_ran_in"]; where != "" {
			printFolded(out, "", 2, "programs on "+n.Name+" ran in "+where)
		}
	}
	if len(a.Spans)+len(a.EndToEnd) > 0 {
		fmt.Fprintln(out)
		printSpans(out, a)
	}
}

// narrowestAndWidest returns the pairs of nodes with the smallest and the largest median bound, or
// nil if no nodes are related.
func narrowestAndWidest(a *analysis.Answer) (best, worst *analysis.Pair) {
	for i := range a.Pairs {
		p := &a.Pairs[i]
		if best == nil || p.Bound_cycles < best.Bound_cycles {
			best = p
		}
		if worst == nil || p.Bound_cycles > worst.Bound_cycles {
			worst = p
		}
	}
	return best, worst
}

// describeAssumptions says what the bounds assume, and whether the data contradict it.
func describeAssumptions(a *analysis.Answer) string {
	suspect, declared := 0, 0.0
	for i := range a.Pairs {
		if a.Pairs[i].Verdict != "consistent" {
			suspect++
		}
		declared = max(declared, a.Pairs[i].Declared_ppm)
	}
	text := fmt.Sprintf("if rates wander by %g ppm at most within ±%g s: ", declared,
		a.Pairs[0].Window_s)
	if suspect == 0 {
		return text + "the data agree"
	}
	return text + "the data contradict it for " + command.Plural(suspect, "pair")
}

// describeClaims says which bounds rest on what a person configured and the data do not prove: on a
// clock that nodes share, or on stamps of a network interface.
func describeClaims(a *analysis.Answer) (texts []string) {
	for _, n := range a.Nodes {
		if what := n.Facts["shared_clock"]; what != "" {
			texts = append(texts, "bounds of "+n.Name+" also rest on a clock: "+what)
		}
		if what := n.Facts["hardware_stamps"]; what != "" {
			texts = append(texts, "bounds of "+n.Name+" also rest on hardware stamps: "+what)
		}
	}
	return texts
}

// restsOnAll says what --third-nodes any means for the bounds.
const restsOnAll = "any third node narrows the bounds of two nodes, so each bound rests on all " +
	"nodes"

// printSpans prints the name of each span, and below it a row for each place where the span was.
func printSpans(out io.Writer, a *analysis.Answer) {
	fmt.Fprintf(out, "from → to, kind\n  %-7s %9s  %24s %24s %24s  %s\n", "where", "tuples",
		"p50, cycles", "p50", "p99", "verdict")
	for _, spans := range [][]analysis.Span{a.Spans, a.EndToEnd} {
		for i := range spans {
			l := &spans[i]
			name := spanName(l)
			if l.Kind != "waiting" { // the name of a wait says so
				name += ", " + l.Kind
			}
			printFolded(out, "", 4, name)
			for _, group := range []struct {
				where string
				d     *analysis.Durations
			}{{"local", l.Local}, {"remote", l.Remote}} {
				if group.d == nil {
					continue
				}
				p50, ok := group.d.Percentiles.At(50)
				p99, _ := group.d.Percentiles.At(99)
				texts := [3]string{"-"}
				if ok {
					texts = [3]string{cyclesText(p50), a.Reference.Seconds(p50),
						a.Reference.Seconds(p99)}
				}
				printFolded(out, fmt.Sprintf("  %-7s %9d  %24s %24s %24s  ", group.where,
					group.d.Count, texts[0], texts[1], texts[2]), 10, verdictOf(l, group.d))
			}
		}
	}
}

// spanName returns the name of a span in tables.
func spanName(l *analysis.Span) string {
	text := endsOf(l.From, l.To, l.Kind)
	if l.Origin != "" {
		text += ", " + l.Origin + " origin"
	}
	return text
}

// endsOf names a span by its ends. Where branches meet, a transfer and a wait can have the same
// ends. To tell them apart, the name of a wait ends with "waiting".
func endsOf(from, to, kind string) string {
	text := from + " → " + to
	if kind == "waiting" {
		text += ", waiting"
	}
	return text
}

// printLength prints how long the run took.
func printLength(out io.Writer, a *analysis.Answer) {
	l := a.Length
	if l == nil {
		return
	}
	until := "the last tuple"
	if l.Poison {
		until = "the last poison"
	}
	text := fmt.Sprintf("run length, from the first tuple (%s) to %s (%s): %s; %d tuples", l.From,
		until, l.To, formatAmount(a, l.Interval), l.Tuples)
	if l.Verdict == tscratio.Suspect.String() {
		text += ", suspect"
	}
	fmt.Fprintln(out)
	printFolded(out, "", 2, text)
}

// printPoints lists the points at which tuples were lost, duplicated, late or otherwise
// conspicuous.
func printPoints(out io.Writer, a *analysis.Answer) {
	width := 24 // largest width of a name
	for i := range a.Points {
		width = min(max(width, utf8.RuneCountInString(a.Points[i].Name)), 43)
	}
	head := false
	var reasons []string // why numbers are marked with ≤
	points := map[string][]string{}
	for i := range a.Points {
		p := &a.Points[i]
		if p.Lost+p.Filtered+p.InFlight+p.Perhaps+p.Duplicates+p.Appeared+p.Disordered == 0 {
			continue
		}
		if !head {
			fmt.Fprintf(out, "\n%-*s %10s %10s %10s %10s %10s %10s %10s\n", width, "point",
				"tuples", "lost", "filtered", "in flight", "duplicate", "appeared", "late")
			head = true
		}
		most := "" // ≤ if logs lack tuples, because the true number may be smaller
		if p.Undecided != "" {
			most = "≤ "
		}
		ended := func(n uint64) string {
			if n == 0 {
				return "0"
			}
			return most + strconv.FormatUint(n, 10)
		}
		fmt.Fprintf(out, "%-*s %10d %10s %10d %10s %10d %10d %10d\n", width,
			shorten(p.Name, width), p.Tuples, ended(p.Lost+p.Perhaps), p.Filtered,
			ended(p.InFlight), p.Duplicates, p.Appeared, p.Disordered)
		if p.Undecided != "" && p.Lost+p.Perhaps+p.InFlight > 0 {
			if points[p.Undecided] == nil {
				reasons = append(reasons, p.Undecided)
			}
			points[p.Undecided] = append(points[p.Undecided], p.Name)
		}
	}
	if len(reasons) > 0 {
		fmt.Fprintln(out, "\n≤ lost, filtered or not logged: the logs do not show which")
	}
	for _, reason := range reasons {
		printFolded(out, "  ", 4, "after "+someOf(points[reason])+": "+reason)
	}
}

// someOf returns the first few of the given names, and says how many more there are.
func someOf(names []string) string {
	const most = 4
	if n := len(names) - most; n > 1 {
		return fmt.Sprintf("%s and %d more", strings.Join(names[:most], ", "), n)
	}
	return strings.Join(names, ", ")
}

func printCounters(out io.Writer, a *analysis.Answer) {
	for i := range a.Counters {
		c := &a.Counters[i]
		if i == 0 {
			fmt.Fprintf(out, "\n%-60s %-20s %12s %20s\n", "counted", "node", "total",
				"a second")
		}
		var lo, hi int64
		var n uint64
		for _, p := range c.Periods {
			lo, hi, n = lo+p.Length.Lo_cycles, hi+p.Length.Hi_cycles, n+p.Count
		}
		rate := rateText(n, lo, hi, a.Reference)
		fmt.Fprintf(out, "%-60s %-20s %12d %20s\n", shorten(c.Channel, 60),
			shorten(c.Node, 20), c.Total, rate)
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

// printReturnTrips prints durations of tuples as measured by return trips (the receiver
// acknowledges each tuple), beside durations of the same tuples as measured by related counters.
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
		fmt.Fprintf(out, "%-40s %9d %10d  %24s %24s\n",
			shorten(fmt.Sprintf("%s on %s → %s on %s", r.From, r.FromNode, r.To, r.ToNode), 40),
			r.ByReturnTrip.Count, r.Unanswered, text(&r.ByReturnTrip), text(&r.ByCounters))
		if r.Disagree > 0 {
			fmt.Fprintf(out, "  the two intervals of %s DISAGREE\n",
				command.Plural(int(r.Disagree), "tuple"))
		}
		if r.ByReturnTrip.Suspect+r.ByCounters.Suspect > 0 {
			fmt.Fprintln(out, "  estimates: they rest on a suspect relation")
		}
	}
}

func printSlowest(out io.Writer, a *analysis.Answer) {
	for i, way := range a.Slowest {
		if i == 0 || way.Made != a.Slowest[i-1].Made {
			made := ""
			if way.Made {
				made = " that were made of others"
			}
			fmt.Fprintf(out, "\nslowest tuples%s, with the time since the event before\n", made)
		}
		fmt.Fprintf(out, "  %d: %s%s\n", way.ID, formatAmount(a, way.Total),
			suspectText(slices.ContainsFunc(way.Passed,
				func(p analysis.Passed) bool { return p.Verdict == tscratio.Suspect.String() })))
		var text strings.Builder
		for k, p := range way.Passed {
			if k > 0 {
				since := "?"
				if p.Since != nil {
					since = formatAmount(a, *p.Since)
				}
				fmt.Fprintf(&text, " → (%s) ", since)
			}
			fmt.Fprintf(&text, "%s on %s", p.Channel, p.Node)
		}
		printFolded(out, "    ", 6, text.String())
	}
}
