package answers

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/cloudprofiler/cloudprofiler/analysis"
	"github.com/cloudprofiler/cloudprofiler/internal/command"
	"github.com/cloudprofiler/cloudprofiler/runs"
)

func newDiff() *cobra.Command {
	var flags analyzeFlags
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "diff BEFORE AFTER",
		Short: "Compare runs: what became faster or slower, beyond bounds and noise",
		Long: `Compare runs: what became faster or slower, beyond bounds and noise.

BEFORE and AFTER are runs, as for cprof analyze. Each may be several runs of the same thing, with
commas between them. The noise then includes how much these runs differ from each other. With one
run on each side, that is not known.

Spans with the same ends are compared at the median and at the 99th percentile. A span is called
faster or slower only if the intervals of the two sides are further apart than the noise: the
distance by which chance moves such a percentile. A span is called the same if the bounds and the
difference are within the noise. Otherwise it is undecided, and the last column says what would
decide it in nine of ten cases, if the difference is the one that was found.

Only durations of the same tuples are judged. If a run lacks tuples, the spans that lack them are
undecided, and the last column says why. Tuples that handlers chose on both sides are the same if
both chose by id, with the same rule (xoy with the same x and y).

The flags choose the same part of each run, as they do for cprof analyze.

Exit code 1: one of the runs cannot be answered. Exit code 3: parts are suspect, missing or
undecided.`,
		Example: `  cprof diff monday tuesday
  cprof diff monday,monday-2,monday-3 tuesday,tuesday-2,tuesday-3
  cprof diff monday tuesday --json | jq 'select(.verdict == "slower")'`,
		Args: cobra.ExactArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			return runDiff(cmd.Context(), args[0], args[1], flags, asJSON, cmd.OutOrStdout(),
				cmd.ErrOrStderr())
		},
	}
	flags.add(cmd)
	cmd.ValidArgsFunction = command.CompleteRunLists(2)
	cmd.Flags().BoolVar(&asJSON, "json", false, "print one JSON object a line")
	return cmd
}

// severalRuns splits an argument into runs. If a directory has the whole argument as its name, the
// argument is one run.
func severalRuns(argument string) []string {
	if _, err := os.Stat(argument); err == nil {
		return []string{argument}
	}
	return strings.Split(argument, ",")
}

func runDiff(ctx context.Context, before, after string, flags analyzeFlags, asJSON bool, stdout,
	stderr io.Writer) error {
	o, err := flags.options()
	if err != nil {
		return err
	}
	opened, err := openSides(before, after)
	if err != nil {
		return err
	}
	defer opened.close()
	var sides [2][]*analysis.Answer
	var parts []error
	for _, run := range opened {
		answer, err := analyzeOpen(ctx, run.dir, o, stderr)
		if err != nil {
			return err
		}
		sides[run.side] = append(sides[run.side], answer)
		parts = append(parts, partialOf(answer, run.given))
	}
	changes, err := analysis.Diff(sides[0], sides[1])
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
	} else if err := printChanges(stdout, sides, changes); err != nil {
		return err
	}
	return errors.Join(parts...)
}

// openedRun is a run of one of the two sides that diff compares.
type openedRun struct {
	given string // on the command line
	side  int
	dir   *runs.Directory
	info  fs.FileInfo
}

type openedRuns []openedRun

func (o openedRuns) close() {
	for _, run := range o {
		run.dir.Close()
	}
}

// openSides opens the runs of both sides. No run may be given twice. If a run were given twice on
// one side, the differences that arise by chance would seem smaller than they are. If a run were
// given on both sides, it would hide differences between the sides.
func openSides(before, after string) (opened openedRuns, err error) {
	defer func() {
		if err != nil {
			opened.close()
		}
	}()
	for side, argument := range []string{before, after} {
		for _, given := range severalRuns(argument) {
			if given == "" {
				return opened, command.Usagef("%q: a run's name between two commas is empty",
					argument)
			}
			dir, err := command.OpenRun(given)
			if err != nil {
				return opened, err
			}
			opened = append(opened, openedRun{given: given, side: side, dir: dir})
			last := &opened[len(opened)-1]
			if last.info, err = os.Stat(dir.Path); err != nil {
				return opened, fmt.Errorf("compare runs: %w", err)
			}
			for _, other := range opened[:len(opened)-1] {
				if os.SameFile(other.info, last.info) {
					return opened, command.Usagef("run %q is given twice, as %q and as %q: give "+
						"each run once", dir.Run.Name, other.given, given)
				}
			}
		}
	}
	return opened, nil
}
