package answers

import (
	"fmt"
	"io"

	"github.com/cloudprofiler/cloudprofiler/analysis"
)

// printPauses prints how often JVMs stopped all threads. It also prints each span whose slowest
// tuples spent a relevant share of their time in such pauses.
func printPauses(out io.Writer, a *analysis.Answer) {
	if len(a.JVMs) == 0 {
		return
	}
	fmt.Fprintf(out, "\npauses of JVMs\n")
	for i := range a.JVMs {
		j := &a.JVMs[i]
		text := fmt.Sprintf("%s on %s: %d pauses, together %s, %s of that until all threads had "+
			"stopped", j.Name, j.Node, j.Pauses, formatAmount(a, j.Total),
			formatAmount(a, j.Reaching))
		if len(j.Kinds) > 0 {
			text += fmt.Sprintf("; most of it %s, %d times, at most %s", j.Kinds[0].Name,
				j.Kinds[0].Count, formatAmount(a, j.Kinds[0].Longest))
		}
		printFolded(out, "  ", 4, text)
	}
	for _, spans := range [][]analysis.Span{a.Spans, a.EndToEnd} {
		for i := range spans {
			l := &spans[i]
			if l.Pauses == nil {
				continue
			}
			if text := l.Pauses.Slowest.Relevant(); text != "" {
				printFolded(out, "  ", 4, fmt.Sprintf("%s, the slowest %d of %d: %s", spanName(l),
					l.Pauses.Slowest.Count, l.Pauses.All.Count, text))
			}
		}
	}
}
