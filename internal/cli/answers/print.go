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
	for _, r := range a.Routes {
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
	if len(a.Legs)+len(a.EndToEnd) == 0 {
		fmt.Fprintln(out, "no tuple was seen at two points: there are no durations")
	} else {
		printLegs(out, a)
		PrintRoutes(out, a)
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

func printLegs(out io.Writer, a *analysis.Answer) {
	width := legsWidth(a)
	fmt.Fprintf(out, "%-*s  %-11s %-7s %9s  %24s %24s %24s  %s\n", width, "from → to", "kind",
		"where", "tuples", "p50, cycles", "p50", "p99", "verdict")
	for _, legs := range [][]analysis.Leg{a.Legs, a.EndToEnd} {
		for i := range legs {
			l := &legs[i]
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
						width, legName(l), l.Kind, group.where, 0, "-", "", "", verdictOf(group.d))
					continue
				}
				fmt.Fprintf(out, "%-*s  %-11s %-7s %9d  %24s %24s %24s  %s\n",
					width, legName(l), l.Kind, group.where, group.d.Count, cyclesText(p50),
					a.Reference.Seconds(p50), a.Reference.Seconds(p99), verdictOf(group.d))
			}
		}
	}
}

// slowLegs is how many spans of a path are named as slow.
const slowLegs = 3

// PrintRoutes names the slowest spans of each path, and says whether the bounds prove their order.
func PrintRoutes(out io.Writer, a *analysis.Answer) {
	title := "\nslowest by the median\n"
	for _, r := range a.Routes {
		if len(r.Legs) < 2 {
			continue
		}
		fmt.Fprint(out, title)
		title = ""
		made := ""
		if len(r.MadeOf) > 0 {
			made = " that were made of others"
		}
		fmt.Fprintf(out, "  of %d tuples%s, from %s: ", r.Tuples, made, strings.Join(r.From, ", "))
		for i, ranked := range r.Legs[:min(len(r.Legs), slowLegs)] {
			l := &a.Legs[ranked.Leg]
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
			fmt.Fprintf(out, "%s (%s)", legName(l), text)
		}
		fmt.Fprintln(out)
	}
}

// legName returns the name of a span in tables.
func legName(l *analysis.Leg) string {
	text := l.From + " → " + l.To
	if l.Origin != "" {
		text += ", " + l.Origin + " origin"
	}
	return text
}

// legsWidth returns the width of the longest name.
func legsWidth(a *analysis.Answer) (width int) {
	for _, legs := range [][]analysis.Leg{a.Legs, a.EndToEnd} {
		for i := range legs {
			width = max(width, len([]rune(legName(&legs[i]))))
		}
	}
	return width
}

// printTruth prints how the durations compare with the truth.
func printTruth(out io.Writer, a *analysis.Answer) {
	if a.Held == nil || a.Held.Count == 0 {
		return
	}
	fmt.Fprintf(out, "\nheld against the truth, which only virtual nodes know: %s\n",
		heldText(a.Held, "duration"))
	width := legsWidth(a)
	fmt.Fprintf(out, "%-*s  %-7s %9s %9s  %18s %18s  %s\n", width, "from → to", "where", "held",
		"outside", "p50", "true p50", "of the bound used by 50, 99, 100 %")
	for _, legs := range [][]analysis.Leg{a.Legs, a.EndToEnd} {
		for i := range legs {
			for _, group := range []struct {
				where string
				d     *analysis.Durations
			}{{"local", legs[i].Local}, {"remote", legs[i].Remote}} {
				if group.d == nil || group.d.Held == nil {
					continue
				}
				h := group.d.Held
				p50, _ := group.d.Percentiles.At(50)
				fmt.Fprintf(out, "%-*s  %-7s %9d %9d  %18s %18s  %3.0f, %3.0f, %3.0f %%%s\n",
					width, legName(&legs[i]), group.where, h.Count, h.Outside,
					cyclesText(p50), trueText(h.True), h.UsedPercentile(50)*100,
					h.UsedPercentile(99)*100, math.Ceil(h.MostUsed*100),
					suspectText(group.d.Suspect > 0))
			}
		}
	}
}

// trueText returns the median of the true durations: a number, or the few cycles within which it
// lies.
func trueText(all analysis.Percentiles) string {
	p50, ok := all.At(50)
	switch {
	case !ok:
		return "-"
	case p50.Lo_cycles == p50.Hi_cycles:
		return fmt.Sprint(p50.Lo_cycles)
	}
	return cyclesText(p50)
}

// heldText says in one line how values compare with the truth.
func heldText(h *analysis.Held, what string) string {
	outside := "all inside"
	if h.Outside > 0 {
		outside = fmt.Sprintf("%d OUTSIDE", h.Outside)
	}
	return fmt.Sprintf("%s, %s; half of them used at most %.0f %% of their bound, 99 %% of them "+
		"%.0f %%, one %.0f %%", plural(int(h.Count), what), outside,
		h.UsedPercentile(50)*100, h.UsedPercentile(99)*100, math.Ceil(h.MostUsed*100))
}

// verdictOf says in a few words how sure durations are.
func verdictOf(d *analysis.Durations) string {
	var words []string
	if d.After > 0 {
		words = append(words, fmt.Sprintf("%d RECEIVED BEFORE SENT", d.After))
	}
	if d.Suspect > 0 {
		words = append(words, "suspect")
	}
	if d.Unplaced > 0 {
		words = append(words, fmt.Sprintf("%d not related", d.Unplaced))
	}
	if d.Undecided > 0 {
		words = append(words, fmt.Sprintf("order of %d undecided", d.Undecided))
	}
	if len(words) == 0 {
		return "ok"
	}
	return strings.Join(words, ", ")
}

// suspectText marks an estimate.
func suspectText(suspect bool) string {
	if suspect {
		return "  suspect"
	}
	return ""
}

// printPoints lists the points at which tuples were lost, duplicated, late or the like.
func printPoints(out io.Writer, a *analysis.Answer) {
	head := false
	for i := range a.Points {
		p := &a.Points[i]
		if p.Lost+p.InFlight+p.Duplicates+p.Appeared+p.Disordered == 0 {
			continue
		}
		if !head {
			fmt.Fprintf(out, "\n%-24s %10s %10s %10s %10s %10s %10s\n", "point", "tuples", "lost",
				"in flight", "duplicate", "appeared", "late")
			head = true
		}
		fmt.Fprintf(out, "%-24s %10d %10d %10d %10d %10d %10d", p.Name, p.Tuples, p.Lost,
			p.InFlight, p.Duplicates, p.Appeared, p.Disordered)
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

// rateText returns how many events a second there were, if n were counted within an interval of
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

// comparedPairs is how many pairs of nodes are compared on a screen.
const comparedPairs = 8

// printComparisons prints our bound beside what other methods would have said.
func printComparisons(out io.Writer, a *analysis.Answer) {
	if len(a.Comparisons) == 0 {
		return
	}
	all := slices.Clone(a.Comparisons)
	foreign := func(c analysis.Comparison) int {
		if c.A == a.Reference.Node || c.B == a.Reference.Node {
			return 0
		}
		return 1
	}
	slices.SortStableFunc(all,
		func(x, y analysis.Comparison) int { return foreign(x) - foreign(y) })
	fmt.Fprintf(out, "\n%-24s", "± cycles, median")
	for _, m := range all[0].Methods {
		fmt.Fprintf(out, " %22s", m.Name)
	}
	fmt.Fprintln(out)
	var why []string
	for _, c := range all[:min(len(all), comparedPairs)] {
		fmt.Fprintf(out, "%-24s", c.A+", "+c.B)
		for _, m := range c.Methods {
			text := "-"
			if m.Absent == "" {
				text = fmt.Sprint(m.Median_cycles)
				if bound := a.Reference.Bound(m.Median_cycles); bound != "" {
					text += " (" + bound + ")"
				}
			} else if reason := m.Name + ": " + m.Absent; !slices.Contains(why, reason) {
				why = append(why, reason)
			}
			fmt.Fprintf(out, " %22s", text)
		}
		if c.Verdict != "consistent" {
			fmt.Fprint(out, "  suspect")
		}
		fmt.Fprintln(out)
	}
	if n := len(all) - comparedPairs; n > 0 {
		fmt.Fprintf(out, "  and %s: --json has them\n", plural(n, "more pair"))
	}
	for i, reason := range why {
		if i == 3 {
			fmt.Fprintf(out, "  - %s: --json has them\n", plural(len(why)-i, "more reason"))
			break
		}
		fmt.Fprintf(out, "  - %s\n", reason)
	}
	printMethodsTruth(out, a)
}

// HeldMethods returns how the claims of each method compare with the truth, over all pairs, in the
// order of methods. If a method makes claims about something else than the others do, about says
// about what.
func HeldMethods(a *analysis.Answer) (names []string, held, about map[string]string) {
	what := map[string]string{analysis.Ours: "moment", analysis.MinRTT: "moment",
		analysis.ReT: "tuple", analysis.NTP: "pair of claims"}
	held, about = map[string]string{}, map[string]string{}
	if len(a.Comparisons) == 0 {
		return nil, held, about
	}
	for i, m := range a.Comparisons[0].Methods {
		sum := new(analysis.Held)
		for _, c := range a.Comparisons {
			if h := c.Methods[i].Held; h != nil {
				sum.Merge(h)
			}
			if c.Methods[i].About != "" {
				about[m.Name] = c.Methods[i].About
			}
		}
		if sum.Count > 0 {
			names, held[m.Name] = append(names, m.Name), heldText(sum, what[m.Name])
		}
	}
	return names, held, about
}

func printMethodsTruth(out io.Writer, a *analysis.Answer) {
	names, held, about := HeldMethods(a)
	if len(names) > 0 {
		fmt.Fprintln(out, "  what each said of all pairs, held against the truth:")
	}
	for _, name := range names {
		fmt.Fprintf(out, "  %-14s %s\n", name, held[name])
	}
	for _, name := range names {
		if about[name] != "" {
			fmt.Fprintf(out, "  %s is about %s\n", name, about[name])
		}
	}
}

// printReturnTrips prints what return trips say of tuples beside what related counters say of the
// same tuples.
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
