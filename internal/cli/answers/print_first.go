package answers

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/cloudprofiler/cloudprofiler/analysis"
	"github.com/cloudprofiler/cloudprofiler/channel"
	"github.com/cloudprofiler/cloudprofiler/internal/command"
	"github.com/cloudprofiler/cloudprofiler/tscratio"
)

// shown is what a person asked to see of an answer.
type shown struct {
	run     string // as given on the command line; the advice repeats it
	verbose bool
	slowest bool // show the slowest tuples
	notes   bool // show notes, even if not verbose

	captured bool // messages follow the answer, so that an answer without tuples need not say so
}

// printAnswer prints an answer: what is slow, how sure that is and what to look at next, then the
// durations as a table, then what the run lacks. Everything else is shown only if asked for.
func printAnswer(w io.Writer, a *analysis.Answer, show shown) error {
	out := &strings.Builder{}
	made := uint64(0)
	for _, r := range a.Paths {
		if len(r.MadeOf) > 0 {
			made += r.Tuples
		}
	}
	head := fmt.Sprintf("run %s: %s, %s, %d tuples", a.Run, command.Plural(len(a.Nodes), "node"),
		command.Plural(len(a.Channels), "channel"), a.Work.Tuples-made)
	if made > 0 {
		head += fmt.Sprintf(" and %d that were made of them", made)
	}
	printFolded(out, "", 2, head)
	switch {
	case len(a.Points) == 0 && show.captured:
		// Programs that were not changed log nothing, so nobody expects durations.
	case len(a.Spans)+len(a.EndToEnd) == 0:
		fmt.Fprintln(out, "\nthere are no durations: "+whyNone(a))
	default:
		PrintPaths(out, a)
		printPauses(out, a)
		printCertainty(out, a)
		printAdvice(out, a, show.run)
		printTable(out, a)
	}
	printPoints(out, a)
	printLength(out, a)
	printCounters(out, a)
	if show.verbose {
		printCycles(out, a)
		printTruth(out, a)
		printComparisons(out, a)
		printReturnTrips(out, a)
	}
	if show.verbose || show.slowest {
		printSlowest(out, a)
	}
	if len(a.Missing) > 0 {
		fmt.Fprintln(out, "\nmissing")
		for _, m := range a.Missing {
			printFolded(out, "  ", 4, m.Part+": "+m.Reason)
		}
	}
	title := "\nfindings\n"
	for _, f := range a.Findings {
		if f.Kind != analysis.FindNote || show.verbose || show.notes {
			fmt.Fprint(out, title)
			printFolded(out, "  ", 4, string(f.Kind)+": "+f.Text)
			title = ""
		}
	}
	_, err := io.WriteString(w, out.String())
	return err
}

// whyNone says why an answer has no durations.
func whyNone(a *analysis.Answer) string {
	passed := uint64(0)
	for i := range a.Points {
		passed += a.Points[i].Tuples
	}
	if passed > a.Work.Tuples {
		return "tuples were seen at several points, and the findings say why these have no order"
	}
	return "no tuple was seen at two points"
}

// slowSpans is how many spans of a path are named as slow.
const slowSpans = 3

// PrintPaths names the slowest spans of each path, and reports whether the bounds prove their
// order.
func PrintPaths(out io.Writer, a *analysis.Answer) {
	for i := range a.Paths {
		path := &a.Paths[i]
		if len(path.Spans) < 2 {
			continue
		}
		by := "median"
		if path.Spans[0].Share != nil {
			by = "share of the end-to-end time"
		}
		fmt.Fprintln(out)
		printFolded(out, "", 2, fmt.Sprintf("slowest spans by %s, for %s, from %s", by, path.Of(),
			strings.Join(path.From, ", ")))
		for i, ranked := range path.Spans[:min(len(path.Spans), slowSpans)] {
			word := "perhaps"
			switch {
			case i == 0 && ranked.Surely:
				word = "surely"
			case ranked.Surely:
				word = "then"
			case i > 0:
				word = "then perhaps"
			}
			l := &a.Spans[ranked.Span]
			p50, _ := l.All.Percentiles.At(50)
			text := spanName(l)
			if skipsPoints(a, l) {
				text += pastWords
			}
			text += ": "
			if share, ok := shareOf(a, path, l); ok {
				text += share + " %, "
			}
			text += "median " + formatAmount(a, p50)
			if tuples := l.Described(); tuples != "" {
				text += " of " + tuples
			}
			if l.Lateness() {
				text += ", the load's own lateness"
			}
			if l.All.Suspect > 0 {
				text += ", suspect"
			}
			printFolded(out, fmt.Sprintf("  %-13s ", word), 16, text)
		}
		if why := path.Unsure(); why != "" {
			printFolded(out, "  ", 4, why)
		}
	}
}

// tuplesOf says how many tuples a path has and where they begin. If the shares and the times in the
// table describe different sets of tuples, it names both sets.
func tuplesOf(path *analysis.Path) string {
	made := ""
	if len(path.MadeOf) > 0 {
		made = " that were made of others"
	}
	if path.Completeness.Lacks() {
		made += " in the logs"
	}
	text := fmt.Sprintf("%d tuples%s, from %s", path.Tuples, made, strings.Join(path.From, ", "))
	if len(path.Spans) > 0 && path.Spans[0].Share != nil &&
		(path.Whole < path.Tuples || path.SampledBy != "") {
		text += fmt.Sprintf("; shares are those of the %d tuples whose whole path is in the logs; "+
			"times are those of all tuples that took the span", path.Whole)
	}
	return text
}

// formatAmount prints a duration in seconds, or in cycles if the frequency is not known.
func formatAmount(a *analysis.Answer, i analysis.Interval) string {
	if text := a.Reference.Seconds(i); text != "" {
		return text
	}
	return cyclesText(i) + " cycles"
}

// boundText prints a half-width in seconds, or in cycles if the frequency is not known.
func boundText(a *analysis.Answer, cycles uint64) string {
	if text := a.Reference.Bound(int64(cycles)); text != "" {
		return text
	}
	return fmt.Sprintf("%d cycles", cycles)
}

// printCertainty prints how sure the answer is, and what the answer rests on.
func printCertainty(out io.Writer, a *analysis.Answer) {
	var lines []string
	if best, worst := narrowestAndWidest(a); best != nil {
		text := fmt.Sprintf("bounds between nodes: ± %s (%s, %s)", boundText(a, best.Bound_cycles),
			best.A, best.B)
		if best != worst {
			text += fmt.Sprintf(" to ± %s (%s, %s), medians of %s",
				boundText(a, worst.Bound_cycles), worst.A, worst.B,
				command.Plural(len(a.Pairs), "pair"))
		}
		lines = append(append(lines, text, describeAssumptions(a)), describeClaims(a)...)
	}
	if r := &a.Reference; r.FrequencyLo_hz > 0 && !r.Measured() {
		lines = append(lines, "seconds are nominal: nobody measured the frequency of "+r.Node)
	}
	if a.ThirdNodes == tscratio.ThirdAny {
		lines = append(lines, restsOnAll)
	}
	if err := partial(a); err != nil {
		lines = append(lines, partsOf(a)+", named below")
	}
	printList(out, "how sure", lines)
}

// printList prints a title and lines below it, unless there are no lines.
func printList(out io.Writer, title string, lines []string) {
	if len(lines) == 0 {
		return
	}
	fmt.Fprintf(out, "\n%s\n", title)
	for _, line := range lines {
		printFolded(out, "  ", 4, line)
	}
}

// printAdvice prints what to look at next.
func printAdvice(out io.Writer, a *analysis.Answer, run string) {
	printList(out, "look at next", advice(a, run))
}

// maxAdvice is the largest number of things to look at that an answer names.
const maxAdvice = 3

// advice names what to look at next, most important first.
func advice(a *analysis.Answer, run string) (lines []string) {
	if slices.ContainsFunc(a.Findings, func(f analysis.Finding) bool {
		return f.Kind == analysis.FindImpossible || f.Kind == analysis.FindSuspect
	}) {
		lines = append(lines, "the findings below: they say which figures are not proven, and why")
	}
	for i := range a.Points {
		p := &a.Points[i]
		text := fmt.Sprintf("%d tuples were lost after %s", p.Lost, p.Name)
		if p.Undecided != "" {
			text = fmt.Sprintf("up to %d tuples may have been lost after %s", p.Lost+p.Perhaps,
				p.Name)
		}
		if p.Lost+p.Perhaps > 0 {
			lines = append(lines, text+": see the table of points")
			break
		}
	}
	for _, path := range a.Paths {
		i := slices.IndexFunc(path.Spans, func(r analysis.RankedSpan) bool {
			return !a.Spans[r.Span].Lateness()
		})
		if i < 0 {
			continue
		}
		l := &a.Spans[path.Spans[i].Span]
		if i > 0 {
			came := "came"
			if !path.Spans[i-1].Surely {
				came = "perhaps came"
			}
			lines = append(lines, "the load: it "+came+" late by more than any span took. "+
				"Is its machine too slow?")
		}
		if pair := worstPair(l); pair != nil {
			lines = append(lines, fmt.Sprintf("%s: its p99 is largest from %s to %s",
				spanName(l), pair.From, pair.To))
		}
		lines = append(lines, fmt.Sprintf(
			"single tuples: cprof analyze %s --channel %s --channel %s --slowest 5", run,
			channelsOf(l.From), channelsOf(l.To)))
		break
	}
	lines = lines[:min(len(lines), maxAdvice)]
	// a command on a line of its own can be copied
	return append(lines, "when it was slow: cprof report "+run,
		"all figures: cprof analyze "+run+" -v")
}

// worstPair returns the pair of nodes whose p99 is surely larger than that of all other pairs. If
// the logs lack tuples, no p99 is sure, so it returns nil.
func worstPair(l *analysis.Span) *analysis.NodePair {
	var worst *analysis.NodePair
	surely := len(l.Pairs) > 1 && !l.Completeness.Lacks()
	for i := range l.Pairs {
		p, _ := l.Pairs[i].Percentiles.At(99)
		if worst == nil {
			worst = &l.Pairs[i]
			continue
		}
		w, _ := worst.Percentiles.At(99)
		switch {
		case p.Lo_cycles > w.Hi_cycles:
			worst, surely = &l.Pairs[i], true
		case p.Hi_cycles >= w.Lo_cycles:
			surely = false
		}
	}
	if !surely {
		return nil
	}
	return worst
}

// channelsOf returns a pattern that matches the channels of a point, quoted for a shell.
func channelsOf(point string) string {
	name, err := channel.ParseName(point)
	if err != nil {
		return "'" + point + "'"
	}
	return "'" + name.Actor + "*/" + name.Point + "'"
}
