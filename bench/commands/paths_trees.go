package commands

import (
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/cloudprofiler/cloudprofiler/blackbox/calls"
	"github.com/cloudprofiler/cloudprofiler/blackbox/link"
	"github.com/cloudprofiler/cloudprofiler/internal/command"
)

func rankNames() []string { return slices.Sorted(maps.Keys(link.Ranks)) }

// printTrees prints the first patterns of WAP5's trees.
func printTrees(flags benchPathsFlags, name string, set *calls.Set, stdout io.Writer) error {
	patterns := link.TreePatterns(set.Places, link.MessagesOf(&set.Seen), link.Ranks[flags.rank])
	fmt.Fprintf(stdout, "%s: %s of WAP5's trees, by %s\n", name,
		command.Plural(len(patterns), "pattern"), flags.rank)
	for i := range patterns[:min(flags.trees, len(patterns))] {
		p := &patterns[i]
		fmt.Fprintf(stdout, "\npattern %d: count %d, expectation %.2f, confidence %.2f, "+
			"repetition %.2f\n", i+1, p.Count, p.Expectation, link.Ranks["confidence"](p),
			link.Ranks["repetition"](p))
		w := tabwriter.NewWriter(stdout, 0, 0, 2, ' ', 0)
		fmt.Fprintln(w, "  message\tsent after\tnetwork")
		for k := range p.Steps {
			s := &p.Steps[k]
			after := "-"
			if s.Depth > 0 {
				after = fmt.Sprintf("%.3f ms", s.Own_ns/1e6)
			}
			network := "not known"
			if !math.IsNaN(s.Network_ns) {
				network = fmt.Sprintf("%.3f ms", s.Network_ns/1e6)
			}
			fmt.Fprintf(w, "  %s%s > %s\t%s\t%s\n", strings.Repeat("  ", s.Depth), s.From, s.To,
				after, network)
		}
		if err := w.Flush(); err != nil {
			return err
		}
	}
	fmt.Fprintln(stdout)
	return nil
}
