package answers

import (
	"fmt"
	"io"
	"math"
	"slices"
	"strings"

	"github.com/cloudprofiler/cloudprofiler/analysis"
	"github.com/cloudprofiler/cloudprofiler/internal/command"
)

// printTruth prints how the durations compare with the truth.
func printTruth(out io.Writer, a *analysis.Answer) {
	if a.Held == nil || a.Held.Count == 0 {
		return
	}
	fmt.Fprintln(out)
	printFolded(out, "", 2, "checked against the truth, which only virtual nodes know: "+
		heldText(a.Held, "duration"))
	fmt.Fprintf(out, "from → to\n  %-7s %9s %9s  %24s %24s  %s\n", "where", "held", "outside",
		"p50", "true p50", "of the bound used by 50, 99, 100 %")
	for _, spans := range [][]analysis.Span{a.Spans, a.EndToEnd} {
		for i := range spans {
			name := spanName(&spans[i])
			for _, group := range []struct {
				where string
				d     *analysis.Durations
			}{{"local", spans[i].Local}, {"remote", spans[i].Remote}} {
				if group.d == nil || group.d.Held == nil {
					continue
				}
				if name != "" {
					printFolded(out, "", 4, name)
					name = ""
				}
				h := group.d.Held
				p50, _ := group.d.Percentiles.At(50)
				fmt.Fprintf(out, "  %-7s %9d %9d  %24s %24s  %3.0f, %3.0f, %3.0f %%%s\n",
					group.where, h.Count, h.Outside, cyclesText(p50), trueText(h.True),
					h.UsedPercentile(50)*100, h.UsedPercentile(99)*100, math.Ceil(h.MostUsed*100),
					suspectText(group.d.Suspect > 0))
			}
		}
	}
}

// trueText returns the median of the true durations: one number, or the two numbers between which
// the median lies.
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

// heldText describes in one line how values compare with the truth.
func heldText(h *analysis.Held, what string) string {
	outside := "all inside"
	if h.Outside > 0 {
		outside = fmt.Sprintf("%d OUTSIDE", h.Outside)
	}
	return fmt.Sprintf("%s, %s; half of them used at most %.0f %% of their bound, 99 %% of them "+
		"%.0f %%, one %.0f %%", command.Plural(int(h.Count), what), outside,
		h.UsedPercentile(50)*100, h.UsedPercentile(99)*100, math.Ceil(h.MostUsed*100))
}

// verdictOf describes in a few words how certain the durations of a span are.
func verdictOf(s *analysis.Span, d *analysis.Durations) string {
	var words []string
	if lacks := s.Completeness.Kept.Words(); lacks != "" {
		words = append(words, lacks)
	}
	if d.Withheld > 0 {
		words = append(words, fmt.Sprintf("%d withheld", d.Withheld))
	}
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

// comparedPairs is how many pairs of nodes are compared on a screen.
const comparedPairs = 8

// printComparisons prints our bound beside the bounds that other methods would have given.
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
	fmt.Fprintf(out, "\n%-22s", "± cycles, median")
	for _, m := range all[0].Methods {
		fmt.Fprintf(out, " %20s", m.Name)
	}
	fmt.Fprintln(out)
	var why []string
	for _, c := range all[:min(len(all), comparedPairs)] {
		fmt.Fprintf(out, "%-22s", shorten(c.A+", "+c.B, 22))
		var times []string
		for _, m := range c.Methods {
			text := "-"
			if m.Absent == "" {
				text = fmt.Sprint(m.Median_cycles)
				if bound := a.Reference.Bound(m.Median_cycles); bound != "" {
					text += " (" + bound + ")"
				}
				if m.Times > 0 {
					times = append(times, timesText(&m, a.Bins.Count))
				}
			} else if reason := m.Name + ": " + m.Absent; !slices.Contains(why, reason) {
				why = append(why, reason)
			}
			fmt.Fprintf(out, " %20s", text)
		}
		if c.Verdict != "consistent" {
			fmt.Fprint(out, "  suspect")
		}
		fmt.Fprintln(out)
		if len(times) > 0 {
			printFolded(out, "  ", 4, "at the same moments, "+strings.Join(times, "; "))
		}
	}
	if n := len(all) - comparedPairs; n > 0 {
		fmt.Fprintf(out, "  and %s: --json has them\n", command.Plural(n, "more pair"))
	}
	for i, reason := range why {
		if i == 3 {
			fmt.Fprintf(out, "  - %s: --json has them\n", command.Plural(len(why)-i, "more reason"))
			break
		}
		printFolded(out, "  - ", 4, reason)
	}
	printMethodsTruth(out, a)
}

// timesText says how much wider a method's bound is than ours where both have a value.
func timesText(m *analysis.Method, bins int) string {
	text := fmt.Sprintf("the bound of %s is %.3g times ours", m.Name, m.Times)
	if m.Gaps > 0 {
		text += fmt.Sprintf(", but %s has no value in %d of %d bins", m.Name, m.Gaps, bins)
	}
	return text
}

// HeldMethods returns how the intervals of each method compare with the truth, over all pairs of
// nodes. The first result lists the names of the methods in order. The second (held) maps the name
// of each method to its comparison. The third (about) explains the intervals of a method, if they
// mean something else than those of the other methods.
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
		fmt.Fprintln(out, "  what each said of all pairs, checked against the truth:")
	}
	for _, name := range names {
		printFolded(out, fmt.Sprintf("  %-14s ", name), 17, held[name])
	}
	for _, name := range names {
		if about[name] != "" {
			printFolded(out, "  ", 4, name+" is about "+about[name])
		}
	}
}
