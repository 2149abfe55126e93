package answers

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/cloudprofiler/cloudprofiler/analysis"
	"github.com/cloudprofiler/cloudprofiler/blackbox/messages"
	"github.com/cloudprofiler/cloudprofiler/internal/command"
	"github.com/cloudprofiler/cloudprofiler/runs"
)

// withMessages is what analyze prints as JSON: the answer, and what was captured.
type withMessages struct {
	*analysis.Answer
	Messages *messages.Answer `json:"captured_messages,omitempty"`
}

// messagesOf returns what is known about the captured messages of a run. Times are in cycles of the
// node that is the reference of the answer a. If nothing was captured, it returns nil.
func messagesOf(path string, a *analysis.Answer, o *analysis.Options) (*messages.Answer, error) {
	dir, err := command.OpenRun(path)
	if err != nil {
		return nil, err
	}
	defer dir.Close()
	return messagesIn(dir, a, o)
}

func messagesIn(dir *runs.Directory, a *analysis.Answer, o *analysis.Options) (*messages.Answer,
	error) {
	return messages.Of(dir, messages.Options{
		Reference: a.Reference.Node, Wander: o.Wander, ThirdNodes: o.ThirdNodes,
	})
}

// chooseProgram leaves only the pairs of a program in the answer. It fails if there are none.
func chooseProgram(m *messages.Answer, program string) error {
	if m == nil {
		return fmt.Errorf("--program %q: no messages were captured", program)
	}
	var others []string
	m.Pairs = slices.DeleteFunc(m.Pairs, func(p messages.Pair) bool {
		others = append(others, p.From.Name, p.To.Name)
		return p.From.Name != program && p.To.Name != program
	})
	if len(m.Pairs) > 0 {
		return nil
	}
	slices.Sort(others)
	if others = slices.Compact(others); len(others) == 0 {
		return fmt.Errorf("--program %q: no captured message has two known ends", program)
	}
	return fmt.Errorf("--program %q: it exchanged no message whose both ends are known: %s did",
		program, shorten(strings.Join(others, ", "), listWidth))
}

// mostPairs is the largest number of pairs of programs that are printed without --verbose.
const mostPairs = 20

// printMessages prints who sent to whom, and how long the transfers took.
func printMessages(w io.Writer, m *messages.Answer, r analysis.Reference, verbose bool) error {
	if m == nil {
		return nil
	}
	pairs := m.Pairs
	fmt.Fprintf(w, "\nmessages captured: %s calls sent, %s calls received; of %s both ends are "+
		"known\n", command.Thousands(m.Sent), command.Thousands(m.Received),
		command.Thousands(m.Matched))
	if m.Twice > 0 {
		fmt.Fprintf(w, "  %10s calls were seen by the agent and by a library in the program: they "+
			"count once\n", command.Thousands(m.Twice))
	}
	if !verbose && len(pairs) > mostPairs {
		pairs = pairs[:mostPairs]
	}
	if len(pairs) > 0 {
		fmt.Fprintf(w, "  %10s %15s %6s  %24s %24s  %s\n", "messages", "bytes", "conns",
			"transfer p50", "p99", "from → to")
	}
	for i := range pairs {
		p := &pairs[i]
		fmt.Fprintf(w, "  %10s %15s %6d  %24s %24s  %s → %s%s\n", command.Thousands(p.Messages),
			command.Thousands(p.Bytes), p.Connections, transferText(p, r, 50),
			transferText(p, r, 99), programText(p.From)+namesText(p.From_names),
			programText(p.To)+namesText(p.To_names), doubtOf(p))
		for _, part := range []struct {
			of   uint64
			all  []messages.Percentile
			what string
		}{
			{p.Resent, p.Resending, "until TCP sent bytes again for the last time"},
			{p.Arrived, p.Arrival, "network: until it arrived"},
			{p.Arrived, p.Waited, "from then until it was received"},
			{p.Divided, p.Kernel, "kernel: of that, the receiver waited for it or took it"},
			{p.Divided, p.Program, "program: of that, the receiver did something else"},
		} {
			if part.of > 0 {
				fmt.Fprintf(w, "  %10s %15s %6s  %24s %24s  %s, of %s\n", "", "", "",
					percentileText(part.all, r, 50), percentileText(part.all, r, 99), part.what,
					command.Thousands(part.of))
			}
		}
	}
	if left := len(m.Pairs) - len(pairs); left > 0 {
		fmt.Fprintf(w, "  and %s with fewer messages: see --verbose\n",
			command.Plural(left, "pair of programs"))
	}
	for _, reason := range slices.Sorted(maps.Keys(m.Left)) {
		fmt.Fprintf(w, "  %10s sent, receiver not known: %s\n", command.Thousands(m.Left[reason]),
			reason)
	}
	printOutside(w, m.Outside, verbose)
	printElsewhen(w, m.Elsewhen)
	for _, n := range m.Nodes {
		for _, reason := range slices.Sorted(maps.Keys(n.Lost)) {
			fmt.Fprintf(w, "  %10s lost on %s: %s\n", command.Thousands(n.Lost[reason]), n.Node,
				reason)
		}
		if n.Missing != "" {
			fmt.Fprintf(w, "  %10s of %s: %s\n", "", n.Node, n.Missing)
		}
	}
	return nil
}

// printElsewhen says that a relation is of another time than the messages.
func printElsewhen(w io.Writer, why string) {
	if why != "" {
		printFolded(w, "  ", 4, "times not known: a relation is of another time, perhaps of "+
			"another run: "+why)
	}
}

// mostOutside is the largest number of addresses that printOutside prints without --verbose.
const mostOutside = 10

// printOutside prints the addresses to which programs sent messages, if the other end was not
// captured.
func printOutside(w io.Writer, all []messages.Outside, verbose bool) {
	shown := all
	if !verbose && len(all) > mostOutside {
		shown = all[:mostOutside]
	}
	for i := range shown {
		o := &shown[i]
		to := o.To()
		if len(o.Names) > 0 {
			to = namesList(o.Names)
		}
		if o.Port != 0 {
			to += fmt.Sprint(", port ", o.Port)
		}
		fmt.Fprintf(w, "  %10s sent, %s bytes, not captured at the other end: %s → %s\n",
			command.Thousands(o.Messages), command.Thousands(o.Bytes), programText(o.From), to)
	}
	if len(shown) < len(all) {
		fmt.Fprintf(w, "  %d of %d addresses are shown: see --verbose\n", len(shown), len(all))
	}
}

// namesText returns the text that follows a program's name: the host names under which other
// programs know it.
func namesText(names []string) string {
	if len(names) == 0 {
		return ""
	}
	return " (" + namesList(names) + ")"
}

func namesList(names []string) string { return shorten(strings.Join(names, ", "), listWidth) }

func programText(p messages.Program) string {
	if p.Name == "" {
		p.Name = "unknown"
	}
	return p.Name + " on " + p.Node
}

func transferText(p *messages.Pair, r analysis.Reference, percent float64) string {
	return percentileText(p.Transfer, r, percent)
}

func percentileText(all []messages.Percentile, r analysis.Reference, percent float64) string {
	for _, t := range all {
		if t.Percent == percent {
			i := analysis.Interval{Lo_cycles: t.Lo_cycles, Hi_cycles: t.Hi_cycles}
			if text := r.Seconds(i); text != "" {
				return text
			}
			return cyclesText(i)
		}
	}
	return "not known"
}

// doubtOf says why the transfers of a pair are less sure than they look, or why some of them are
// missing.
func doubtOf(p *messages.Pair) (text string) {
	if p.Suspect {
		text += ", suspect"
	}
	if p.Unknown > 0 {
		text += fmt.Sprintf(", transfer of %s not known", command.Thousands(p.Unknown))
	}
	if p.Backwards > 0 {
		text += fmt.Sprintf(", %s received before they were sent", command.Thousands(p.Backwards))
	}
	return text
}
