package answers

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/cloudprofiler/cloudprofiler/analysis"
	"github.com/cloudprofiler/cloudprofiler/blackbox/link"
	"github.com/cloudprofiler/cloudprofiler/blackbox/paths"
	"github.com/cloudprofiler/cloudprofiler/internal/command"
)

func newPaths() *cobra.Command {
	var flags analyzeFlags
	var method string
	var most int
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "paths RUN",
		Short: "Say which calls requests led to, from captured messages",
		Long: `Say which calls requests led to, from captured messages. RUN is a run, as for cprof
analyze, in which messages were captured (cprof capture).

A call is a request that one program sends to another, and its response. Nothing in the messages
says which request a call belongs to. So the command infers this link from the moments of the
messages, and gives its probability. A call without a cause begins a path. Paths with equal trees
follow one pattern. The pattern that took the most time comes first.

Each line of a pattern is a call: the called program, the probability of the link to the call above
it, the share of the requests' time that was spent in the program, and waiting for the network, and
the medians of both. docs/paths.md says how to read a probability.`,
		Example: `  cprof paths tuesday
  cprof paths tuesday --method wap5
  cprof paths tuesday --json | jq '.patterns[0].whole'`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			chosen, err := methodOf(method)
			if err != nil {
				return err
			}
			if most < 1 {
				return command.Usagef("--most %d: give 1 or more", most)
			}
			o, err := flags.options()
			if err != nil {
				return err
			}
			answer, err := analyzeRun(cmd.Context(), args[0], o, cmd.ErrOrStderr())
			if err != nil && !errors.Is(err, errOnlyMessages) {
				return err
			}
			found, err := pathsOf(args[0], answer, &o, chosen)
			if err != nil {
				return err
			}
			if asJSON {
				encoder := json.NewEncoder(cmd.OutOrStdout())
				encoder.SetIndent("", " ")
				return encoder.Encode(found)
			}
			return printPathPatterns(cmd.OutOrStdout(), found, answer.Reference, most)
		},
	}
	flags.add(cmd)
	cmd.Flags().StringVar(&method, "method", link.Methods[0].Name(),
		"method that finds causes: "+strings.Join(methodNames(), ", "))
	command.CompleteFlag(cmd, "method", command.CompleteValues(methodNames()))
	cmd.Flags().IntVar(&most, "most", 5, "how many patterns to print")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print everything as one JSON object")
	return cmd
}

func methodNames() (names []string) {
	for _, m := range link.Methods {
		names = append(names, m.Name())
	}
	return names
}

func methodOf(name string) (link.Method, error) {
	for _, m := range link.Methods {
		if m.Name() == name {
			return m, nil
		}
	}
	return nil, command.Usagef("--method %q: use one of %s", name,
		strings.Join(methodNames(), ", "))
}

// pathsOf returns the paths of a run, in cycles of the answer's reference.
func pathsOf(path string, a *analysis.Answer, o *analysis.Options,
	method link.Method) (*paths.Answer, error) {
	dir, err := command.OpenRun(path)
	if err != nil {
		return nil, err
	}
	defer dir.Close()
	found, err := paths.Of(dir, paths.Options{
		Reference: a.Reference, Wander: o.Wander, ThirdNodes: o.ThirdNodes, Method: method,
	})
	if err == nil && found == nil {
		err = fmt.Errorf("run %q: no messages were captured: cprof capture start does that",
			dir.Run.Name)
	}
	return found, err
}

// printPathPatterns prints the patterns that took the most time.
func printPathPatterns(w io.Writer, a *paths.Answer, r analysis.Reference, most int) error {
	all := analysis.Interval{}
	for i := range a.Patterns {
		all.Lo_cycles += a.Patterns[i].Whole.Total.Lo_cycles
		all.Hi_cycles += a.Patterns[i].Whole.Total.Hi_cycles
	}
	fmt.Fprintf(w, "%s requests of %s took %s in all\n", command.Thousands(uint64(a.Requests)),
		plural(len(a.Patterns), "pattern"), secondsText(all, r))
	if a.Links > 0 {
		fmt.Fprintf(w, "of %s links, %.1f %% are at least %g sure, and %.1f %% at least %g\n",
			command.Thousands(uint64(a.Links)), percentOf(a.Said, a.Links), link.Said,
			percentOf(a.Sure, a.Links), link.Sure)
	}
	for i := range a.Patterns[:min(most, len(a.Patterns))] {
		printPattern(w, i+1, &a.Patterns[i], r, all)
	}
	if left := len(a.Patterns) - most; left > 0 {
		fmt.Fprintf(w, "\nand %s that took less time: see --most\n", plural(left, "pattern"))
	}
	return nil
}

func percentOf(part, all int) float64 { return 100 * float64(part) / float64(max(all, 1)) }

func printPattern(w io.Writer, number int, p *paths.Pattern, r analysis.Reference,
	all analysis.Interval) {
	from := p.From
	if from == "" {
		from = "not captured"
	}
	fmt.Fprintf(w, "\npattern %d: %s requests from %s, %s of the time, probability %.2f\n", number,
		command.Thousands(uint64(p.Requests)), from, shareText(p.Whole.Total, all), p.Probability)
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
			shareText(c.WaitedNetwork, p.Whole.Total), medianText(&c.Network, r))
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

// shareText is the share of the middle of one interval in the middle of another.
func shareText(part, all analysis.Interval) string {
	middle := func(i analysis.Interval) float64 {
		return float64(i.Lo_cycles)/2 + float64(i.Hi_cycles)/2
	}
	if !(middle(all) > 0) {
		return "-"
	}
	return fmt.Sprintf("%.1f %%", 100*middle(part)/middle(all))
}
