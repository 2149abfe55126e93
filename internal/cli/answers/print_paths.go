package answers

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/cloudprofiler/cloudprofiler/analysis"
	"github.com/cloudprofiler/cloudprofiler/blackbox/link"
	"github.com/cloudprofiler/cloudprofiler/blackbox/paths"
	"github.com/cloudprofiler/cloudprofiler/internal/command"
)

// printPathAnswer prints the patterns that took the most time, and the slowest paths.
func printPathAnswer(w io.Writer, a *paths.Answer, r analysis.Reference, most int) error {
	all := analysis.Interval{}
	for i := range a.Patterns {
		all.Lo_cycles += a.Patterns[i].Whole.Total.Lo_cycles
		all.Hi_cycles += a.Patterns[i].Whole.Total.Hi_cycles
	}
	if a.Chosen < a.Requests {
		fmt.Fprintf(w, "chosen: %s of %s\n", command.Thousands(uint64(a.Chosen)),
			count(uint64(a.Requests), "request"))
	}
	fmt.Fprintf(w, "%s of %s took %s in all\n", count(uint64(a.Chosen), "request"),
		command.Plural(len(a.Patterns), "pattern"), secondsText(all, r))
	if a.Links > 0 {
		of := ""
		if a.Chosen < a.Requests {
			of = "the run's "
		}
		fmt.Fprintf(w, "of %s%s, %.1f %% are at least %g sure, and %.1f %% at least %g\n",
			of, count(uint64(a.Links), "link"), percentOf(a.Said, a.Links), link.Said,
			percentOf(a.Sure, a.Links), link.Sure)
	} else if a.Requests > 0 {
		fmt.Fprintln(w, "no program that sent a request was captured, so there are no links")
	}
	if a.Pinned > 0 {
		fmt.Fprintf(w, "tuples that programs logged show %s\n",
			count(uint64(a.Pinned), "link"))
	}
	for i := range a.Patterns[:min(most, len(a.Patterns))] {
		printPattern(w, i+1, &a.Patterns[i], r, all)
	}
	if left := len(a.Patterns) - most; left > 0 {
		fmt.Fprintf(w, "\nand %s that took less time: see --most\n",
			command.Plural(left, "pattern"))
	}
	for i := range a.Slowest {
		printPath(w, i, &a.Slowest[i], r)
	}
	lost := uint64(0)
	for _, n := range a.Nodes {
		for _, messages := range n.Lost {
			lost += messages
		}
	}
	if lost > 0 {
		fmt.Fprintf(w, "\nlost: %s: paths may lack calls, and links may be wrong\n",
			count(lost, "message"))
	}
	for _, n := range a.Nodes {
		if n.Missing != "" {
			fmt.Fprintf(w, "\nnode %s: %s. Paths may lack calls\n", n.Node, n.Missing)
		}
	}
	if a.Refuted > 0 {
		fmt.Fprintf(w, "\nreceived before they were sent, as the bounds prove: %s. The two ends "+
			"of each count as different calls\n", count(uint64(a.Refuted), "message"))
	}
	if a.Elsewhen != "" {
		fmt.Fprintln(w)
		printElsewhen(w, a.Elsewhen)
	}
	if a.Mixed > 0 {
		fmt.Fprintln(w)
		printFolded(w, "", 2, fmt.Sprintf("on %s, several requests were open at once, and nothing "+
			"tells requests and responses apart: calls there may be wrong",
			command.Plural(a.Mixed, "connection")))
	}
	return nil
}

// printMissing prints which parts of the run are missing. Their messages are missing, too.
func printMissing(w io.Writer, missing []analysis.Missing) {
	if len(missing) == 0 {
		return
	}
	fmt.Fprintln(w, "\nmissing: paths may lack calls, and durations may not be known")
	for _, m := range missing {
		printFolded(w, "  ", 4, m.Part+": "+m.Reason)
	}
}

// lacking returns an error that wraps command.ErrPartial if a part of the run is missing.
func lacking(answer *analysis.Answer, found *paths.Answer) error {
	n := len(answer.Missing)
	if found.Elsewhen != "" {
		n++
	}
	for _, node := range found.Nodes {
		if node.Missing != "" {
			n++
		}
	}
	if n == 0 {
		return nil
	}
	return fmt.Errorf("%s of run %q: %w", command.Plural(n, "missing part"), answer.Run,
		command.ErrPartial)
}

func percentOf(part, all int) float64 { return 100 * float64(part) / float64(max(all, 1)) }

func printPattern(w io.Writer, number int, p *paths.Pattern, r analysis.Reference,
	all analysis.Interval) {
	from := p.From
	if from == "" {
		from = "outside"
	}
	fmt.Fprintf(w, "\npattern %d: %s from %s, %s of the time, probability %.2f\n", number,
		count(uint64(p.Requests), "request"), from, shareText(p.Whole.Total, all), p.Probability)
	if p50, ok := p.Whole.At(50); ok {
		p99, _ := p.Whole.At(99)
		fmt.Fprintf(w, "  a request took %s (median), %s (p99)\n", secondsText(p50, r),
			secondsText(p99, r))
	}
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintf(t, "  sure\tprogram\ttime\tmedian\tnetwork\tmedian\n")
	for i := range p.Calls {
		c := &p.Calls[i]
		name := strings.Repeat("  ", c.Depth) + c.Program
		if len(c.Nodes) > 0 {
			name += " on " + strings.Join(c.Nodes, ", ")
		}
		fmt.Fprintf(t, "  %.2f\t%s\t%s\t%s\t%s\t%s\n", c.Probability, name,
			shareText(c.WaitedOwn, p.Whole.Total), medianText(&c.Own, r),
			shareText(c.WaitedNetwork, p.Whole.Total),
			medianText(&c.Network, r)+suspectText(c.Suspect))
	}
	t.Flush()
	if p.Slow > 0 {
		printSlower(w, p, r)
	}
}

// mostReasons is how many differences between slow and fast requests are printed.
const mostReasons = 3

// printSlower names the calls of a pattern for which slow requests waited longer than fast
// requests.
func printSlower(w io.Writer, p *paths.Pattern, r analysis.Reference) {
	type reason struct {
		where string
		time  analysis.Interval
	}
	var all []reason
	for i := range p.Calls {
		c := &p.Calls[i]
		all = append(all, reason{"in " + c.Program, c.SlowerOwn},
			reason{"in the network to " + c.Program, c.SlowerNetwork})
	}
	slices.SortStableFunc(all, func(a, b reason) int {
		return -cmp.Compare(a.time.Lo_cycles/2+a.time.Hi_cycles/2,
			b.time.Lo_cycles/2+b.time.Hi_cycles/2)
	})
	text := fmt.Sprintf("the slowest tenth took %s longer than the faster half, on average",
		secondsText(p.Slower, r))
	mark := ": "
	for _, why := range all[:min(mostReasons, len(all))] {
		if why.time.Lo_cycles > 0 {
			text += mark + secondsText(why.time, r) + " of it " + why.where
			mark = ", "
		}
	}
	printFolded(w, "  ", 4, text)
}

// printPath prints the calls of a path, with the times since it began.
func printPath(w io.Writer, i int, p *paths.Path, r analysis.Reference) {
	name := "slowest path"
	if i > 0 {
		name = "next path"
	}
	fmt.Fprintf(w, "\n%s: %s, pattern %d, probability %.2f\n", name, secondsText(*p.Whole, r),
		p.Pattern+1, p.Probability)
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintf(t, "  sure\tprogram\tsent after\treceived\treplied\tanswered\n")
	at := func(i *analysis.Interval) string {
		if i == nil {
			return "-"
		}
		return secondsText(*i, r)
	}
	for k := range p.Calls {
		c := &p.Calls[k]
		place := strings.Repeat("  ", c.Depth) + c.To.Program
		if c.To.Node != "" {
			place += " on " + c.To.Node
		}
		sure := fmt.Sprintf("%.2f", c.Probability)
		if c.Probability < link.Said && c.RunnerUp > 0 {
			sure += fmt.Sprintf(" (another request: %.2f)", c.RunnerUp)
		}
		fmt.Fprintf(t, "  %s\t%s\t%s\t%s\t%s\t%s\n", sure, place, at(c.Sent), at(c.Received),
			at(c.Replied), at(c.Got)+suspectText(c.Suspect))
	}
	t.Flush()
}

func medianText(d *paths.Distribution, r analysis.Reference) string {
	p50, ok := d.At(50)
	if !ok {
		return "not known"
	}
	return secondsText(p50, r)
}

func secondsText(i analysis.Interval, r analysis.Reference) string {
	if text := r.Seconds(i); text != "" {
		return text
	}
	return cyclesText(i)
}

// shareText returns the middle of one interval as a share of the middle of another.
func shareText(part, all analysis.Interval) string {
	middle := func(i analysis.Interval) float64 {
		return float64(i.Lo_cycles)/2 + float64(i.Hi_cycles)/2
	}
	if !(middle(all) > 0) {
		return "-"
	}
	return fmt.Sprintf("%.1f %%", 100*middle(part)/middle(all))
}
