package answers

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/cloudprofiler/cloudprofiler/analysis"
)

func newDiff() *cobra.Command {
	var flags analyzeFlags
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "diff BEFORE AFTER",
		Short: "Compare two runs: what became faster or slower, beyond bounds and noise",
		Long: `Compare two runs: what became faster or slower, beyond bounds and noise.

Spans with the same ends are compared at the median and at the 99th percentile. A span is called
faster or slower only if the intervals of the two runs are further apart than chance moves such a
percentile. It is called the same if the bounds and the difference are within that noise. Otherwise
it is undecided.

The flags select the same in both runs, as they do for cprof analyze.

Exit code 1: one of the runs cannot be answered. Exit code 3: parts are suspect, missing or
undecided.`,
		Example: "  cprof diff runs/monday runs/tuesday\n  cprof diff runs/monday runs/tuesday " +
			"--json | jq 'select(.verdict == \"slower\")'",
		Args: cobra.ExactArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			return runDiff(cmd.Context(), args[0], args[1], flags, asJSON, cmd.OutOrStdout(),
				cmd.ErrOrStderr())
		},
	}
	flags.add(cmd)
	cmd.Flags().BoolVar(&asJSON, "json", false, "print one JSON object a line")
	return cmd
}

func runDiff(ctx context.Context, before, after string, flags analyzeFlags, asJSON bool, stdout,
	stderr io.Writer) error {
	o, err := flags.options()
	if err != nil {
		return err
	}
	var answers [2]*analysis.Answer
	for i, path := range []string{before, after} {
		if answers[i], err = analyzeRun(ctx, path, o, stderr); err != nil {
			return err
		}
	}
	changes, err := analysis.Diff(answers[0], answers[1])
	if err != nil {
		return err
	}
	if asJSON {
		encoder := json.NewEncoder(stdout)
		for _, c := range changes {
			if err := encoder.Encode(c); err != nil {
				return err
			}
		}
	} else if err := printChanges(stdout, answers, changes); err != nil {
		return err
	}
	return errors.Join(partialOf(answers[0], before), partialOf(answers[1], after))
}

func printChanges(w io.Writer, answers [2]*analysis.Answer, changes []analysis.Change) error {
	for i, when := range []string{"before", "after"} {
		a := answers[i]
		fmt.Fprintf(w, "%-7s run %s, %d tuples, by the cycles of %s: %s\n",
			when+":", a.Run, a.Work.Tuples, a.Reference.Node, a.Reference.SecondsMean())
	}
	const line = "%-44s %5s  %24s %24s %10s  %s%s\n"
	fmt.Fprintf(w, "\n"+line, "from → to", "", "before", "after", "noise, µs", "verdict", "")
	for _, c := range changes {
		name := c.From + " → " + c.To
		if c.Origin != "" {
			name += ", " + c.Origin
		}
		if c.Verdict == analysis.Gone || c.Verdict == analysis.New {
			fmt.Fprintf(w, line, name, "", "", "", "", c.Verdict, "")
			continue
		}
		if _, err := fmt.Fprintf(w, line, name, fmt.Sprintf("p%v", c.Percent),
			analysis.SecondsBetween(c.BeforeLo_ns, c.BeforeHi_ns),
			analysis.SecondsBetween(c.AfterLo_ns, c.AfterHi_ns),
			fmt.Sprintf("%.3f", c.Noise_ns/1000), c.Verdict, suspectText(c.Suspect)); err != nil {
			return err
		}
	}
	return nil
}
