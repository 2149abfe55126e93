package fleet

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/cloudprofiler/cloudprofiler/control"
	"github.com/cloudprofiler/cloudprofiler/coordinator"
	"github.com/cloudprofiler/cloudprofiler/internal/command"
	"github.com/cloudprofiler/cloudprofiler/runs"
)

func newRun() *cobra.Command {
	run := &cobra.Command{
		Use:   "run",
		Short: "Start, stop and list runs: experiments on all nodes, measured before and after",
		Long: `Start, stop and list runs: experiments on all nodes, measured before and after.

A run begins with a sweep over all pairs of nodes. Then it is open: programs may work, and nodes
continue to measure each other on a budget. At the end of a run, the server makes another sweep and
fetches the nodes' logs. A run is a directory on the server's machine. The directory also says what
is missing. Fetching a run copies it to this machine.`,
		Example: `  cprof run start tuesday
  ./workload
  cprof run stop
  cprof run list
  cprof run fetch tuesday`,
	}
	run.AddCommand(newRunStart(), newRunStatus(), newRunStop(), newRunAbort(), newRunCollect(),
		newRunList(), newRunFetch(), newRunRm())
	return run
}

func newRunStart() *cobra.Command {
	var order runOrder
	var request coordinator.RunRequest
	cmd := &cobra.Command{
		Use:   "start NAME",
		Short: "Begin a run, and wait until it is open",
		Long: `Begin a run, and wait until it is open. Before that, the server measures how the
counters of the nodes are related. Begin the workload when the command returns.

Exit code 3: the run is open, but some pairs could not be measured; the output lists them.`,
		Example: `  cprof run start tuesday
  cprof run start tuesday --reference node-a --note "10 kT/s, 4 workers"`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			request.Name = args[0]
			if err := runs.CheckName(request.Name); err != nil {
				return command.UsageError{Err: err}
			}
			return order.changeRun(cmd, coordinator.AskStartRun, request,
				func(s *coordinator.RunStatus) bool {
					return s.Phase != coordinator.PhaseBefore && s.Phase != coordinator.PhaseOpening
				})
		},
	}
	order.add(cmd, "return as soon as the run has begun")
	cmd.Flags().StringVar(&request.Note, "note", "", "a note to keep with the run")
	cmd.Flags().StringVar(&request.Reference, "reference", "",
		"give results in cycles of this node (default: the command that reads the run chooses)")
	cmd.ValidArgsFunction = cobra.NoFileCompletions
	command.CompleteFlag(cmd, "reference", order.server.completeNodes(anyNumber))
	return cmd
}

func newRunStatus() *cobra.Command {
	var server serverFlags
	var asJSON bool
	cmd := &cobra.Command{
		Use:     "status",
		Short:   "Show the state of the current or last run",
		Example: "  cprof run status\n  cprof run status --json | jq -r .phase",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			var status *coordinator.RunStatus
			if err := server.askOnce(cmd, coordinator.AskRun, nil, &status); err != nil {
				return err
			}
			return printRun(cmd, status, asJSON)
		},
	}
	server.add(cmd)
	cmd.Flags().BoolVar(&asJSON, "json", false, "print one JSON object, null if there was no run")
	return cmd
}

func newRunStop() *cobra.Command {
	var order runOrder
	cmd := &cobra.Command{
		Use:   "stop",
		Short: "End the run, and wait until it is complete",
		Long: "End the run, and wait until it is complete. The server makes all nodes close the " +
			"run,\nmakes another sweep and fetches the nodes' logs.\n\n" +
			"Exit code 3: parts of the run are missing; the output lists them.",
		Example: "  cprof run stop\n  cprof run stop --no-wait",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return order.changeRun(cmd, coordinator.AskStopRun, nil, isComplete)
		},
	}
	order.add(cmd, "return as soon as the run is ending")
	return cmd
}

func newRunAbort() *cobra.Command {
	var order runOrder
	cmd := &cobra.Command{
		Use:   "abort",
		Short: "End the run at once, and keep the data that the server has",
		Long: `End the run at once, and keep the data that the server has. The server tells the
nodes, but does not wait for them, makes no sweep and fetches no more logs. Later, "cprof run
collect" fetches the logs, or "cprof run rm" removes the run.

Exit code 3: parts of the run are missing; the output lists them.`,
		Example: "  cprof run abort",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return order.changeRun(cmd, coordinator.AskAbortRun, nil, isComplete)
		},
	}
	order.add(cmd, "return as soon as the run is ending")
	return cmd
}

func newRunCollect() *cobra.Command {
	var order runOrder
	cmd := &cobra.Command{
		Use:   "collect NAME",
		Short: "Fetch what a complete run lacks of its nodes' logs",
		Long: `Fetch what a complete run lacks of its nodes' logs: a node was away at the end of the
run, or its files arrived damaged. Measurements and files that the run already has do not change.
Until the run is complete again, its directory is called NAME.part.

Exit code 3: parts are still missing; the output lists them.`,
		Example: "  cprof run collect tuesday",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return order.changeRun(cmd, coordinator.AskCollectRun,
				coordinator.RunRequest{Name: args[0]},
				isComplete)
		},
	}
	order.add(cmd, "return as soon as fetching has begun")
	cmd.ValidArgsFunction = order.server.completeRuns(1,
		func(e coordinator.RunEntry) bool { return e.Complete && e.Missing > 0 })
	return cmd
}

func isComplete(s *coordinator.RunStatus) bool { return s.Phase == coordinator.PhaseComplete }

// A runOrder contains the flags that are common to all commands that change the state of a run.
type runOrder struct {
	server         serverFlags
	asJSON, noWait bool
}

func (o *runOrder) add(cmd *cobra.Command, noWait string) {
	o.server.add(cmd)
	cmd.Flags().BoolVar(&o.asJSON, "json", false, "print one JSON object")
	cmd.Flags().BoolVar(&o.noWait, "no-wait", false, noWait)
}

// changeRun asks the server to change a run, and then prints the run. Unless the user gives
// --no-wait, it waits before it prints, until done returns true for the run's state.
func (o *runOrder) changeRun(cmd *cobra.Command, what string, argument any,
	done func(*coordinator.RunStatus) bool) error {
	link, err := o.server.dial(cmd)
	if err != nil {
		return err
	}
	defer link.Close()
	var status *coordinator.RunStatus
	if err := link.Ask(cmd.Context(), what, argument, &status); err != nil {
		return err
	}
	if status == nil {
		return fmt.Errorf("ask %q: the server answers with no run", what)
	}
	if !o.noWait {
		if status, err = waitForRun(cmd, link, status.Name, done); err != nil {
			return err
		}
	}
	return printRun(cmd, status, o.asJSON)
}

func newRunList() *cobra.Command {
	var server serverFlags
	var asJSON bool
	cmd := &cobra.Command{
		Use:     "list",
		Short:   "List the runs that the server keeps",
		Example: "  cprof run list\n  cprof run list --json",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			var entries []coordinator.RunEntry
			if err := server.askOnce(cmd, coordinator.AskRuns, nil, &entries); err != nil {
				return err
			}
			if asJSON {
				return printJSON(cmd, entries)
			}
			w := tabwriter.NewWriter(cmd.OutOrStdout(), 0, 0, 2, ' ', 0)
			fmt.Fprintln(w, "run\tstate\tbegun\ttook\tnodes\tmissing\tpath\tnote")
			for _, e := range entries {
				state, took := "complete", ""
				if !e.Complete {
					state = "incomplete"
				}
				if e.Problem != "" {
					state = "damaged: " + command.Line(e.Problem)
				}
				if !e.Ended.IsZero() {
					took = e.Ended.Sub(e.Begun).Round(time.Second).String()
				}
				fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%d\t%d\t%s\t%s\n",
					e.Name, state, e.Begun.Local().Format(time.DateTime), took, e.Nodes, e.Missing,
					e.Path, command.Line(e.Note))
			}
			return w.Flush()
		},
	}
	server.add(cmd)
	cmd.Flags().BoolVar(&asJSON, "json", false, "print one JSON array")
	return cmd
}

func newRunRm() *cobra.Command {
	var server serverFlags
	cmd := &cobra.Command{
		Use:     "rm NAME...",
		Short:   "Remove runs that the server keeps, for good",
		Example: "  cprof run rm tuesday",
		Args:    cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return server.askEach(cmd, args, "removed", coordinator.AskRemoveRun,
				func(name string) any { return coordinator.RunRequest{Name: name} })
		},
	}
	server.add(cmd)
	cmd.ValidArgsFunction = server.completeRuns(anyNumber,
		func(coordinator.RunEntry) bool { return true })
	return cmd
}

// pollEvery is the interval at which a waiting command asks the server for progress.
const pollEvery = 200 * time.Millisecond

// pollUntil calls f every pollEvery, until f returns true or an error.
func pollUntil(ctx context.Context, f func() (done bool, err error)) error {
	for {
		if done, err := f(); done || err != nil {
			return err
		}
		select {
		case <-time.After(pollEvery):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// waitForRun waits for a state of the run for which the function until returns true.
func waitForRun(cmd *cobra.Command, link *link, name string,
	until func(*coordinator.RunStatus) bool) (status *coordinator.RunStatus, err error) {
	p := command.NewProgress(cmd.ErrOrStderr())
	defer p.Done()
	said := map[string]bool{}
	slow := slowWait{since: time.Now()}
	err = pollUntil(cmd.Context(), func() (bool, error) {
		status = nil
		if err := link.Ask(cmd.Context(), coordinator.AskRun, nil, &status); err != nil {
			return false, err
		}
		if status == nil || status.Name != name {
			return false,
				fmt.Errorf("run %q no longer exists: the server was restarted, or somebody else "+
					"ended the run", name)
		}
		for _, node := range slices.Sorted(maps.Keys(status.Away)) {
			if !said[node] {
				said[node] = true
				p.Done()
				fmt.Fprintf(cmd.ErrOrStderr(), "node %s is gone: waiting for its logs until %s; "+
					"\"cprof run abort\" ends the wait\n", node,
					status.Away[node].Local().Format(time.TimeOnly))
			}
		}
		if !p.Shows() && slow.news(time.Now(), string(status.Phase)) {
			fmt.Fprintf(cmd.ErrOrStderr(), "run %s: %s\n", name, status.Phase)
		}
		if status.Sweep != nil {
			p.Show("run %s: %s, %d of %d pairs", name, status.Phase, status.Sweep.Complete,
				status.Sweep.Pairs)
		} else if status.Of > 0 {
			p.Show("run %s: %s, %d of %d MB", name, status.Phase, status.Bytes>>20, status.Of>>20)
		} else {
			p.Show("run %s: %s", name, status.Phase)
		}
		return until(status), nil
	})
	return status, err
}

// A slowWait decides when a waiting command prints what it waits for, if its output is not a
// terminal. The command prints a line after slowAfter, and another line each time it begins to wait
// for something else.
type slowWait struct {
	since time.Time
	last  string
}

const slowAfter = 2 * time.Second

func (s *slowWait) news(now time.Time, what string) bool {
	if now.Sub(s.since) < slowAfter || what == s.last {
		return false
	}
	s.last = what
	return true
}

// waitForSweep makes the server measure all pairs, and waits for the end.
func waitForSweep(cmd *cobra.Command, link *link) error {
	var status *coordinator.SweepStatus
	var refused *control.RefusedError
	err := link.Ask(cmd.Context(), coordinator.AskSweep, coordinator.SweepRequest{}, &status)
	// If another sweep is under way, wait for that one.
	if errors.As(err, &refused) && refused.Code == control.NotNow {
		err = link.Ask(cmd.Context(), coordinator.AskSweepStatus, nil, &status)
		if err == nil && status == nil {
			return refused
		}
	}
	if err != nil {
		return err
	}
	p := command.NewProgress(cmd.ErrOrStderr())
	defer p.Done()
	return pollUntil(cmd.Context(), func() (bool, error) {
		if err := link.Ask(cmd.Context(), coordinator.AskSweepStatus, nil, &status); err != nil {
			return false, err
		}
		if status == nil {
			return false,
				errors.New("the sweep no longer exists: the server was restarted, so ask again")
		}
		p.Show("sweep %d: %d of %d pairs, round %d of %d", status.Number, status.Complete,
			status.Pairs, status.Round, status.Rounds)
		return !status.Running, nil
	})
}

// writeSilent says on which nodes nothing was logged. That is no fault, but it may surprise.
func writeSilent(out io.Writer, s *coordinator.RunStatus) {
	n := len(s.NoLogs)
	if n == 0 {
		return
	}
	const names = 8
	list := strings.Join(s.NoLogs[:min(n, names)], ", ")
	if n > names {
		list += ", …"
	}
	fmt.Fprintf(out, "no program logged anything on %d of %s: %s\n", n,
		command.Plural(len(s.Nodes), "node"), list)
}

func printRun(cmd *cobra.Command, s *coordinator.RunStatus, asJSON bool) error {
	out := cmd.OutOrStdout()
	if asJSON {
		if err := printJSON(cmd, s); err != nil {
			return err
		}
	} else if s == nil {
		fmt.Fprintln(out, "there was no run since the server started: \"cprof run list\" lists "+
			"the runs that it keeps")
	} else {
		measured := fmt.Sprintf(", %s, %s", command.Plural(s.Pairs, "pair"),
			command.Plural(s.Trains, "train"))
		if s.Again {
			measured = "" // the run was measured before, and is only collected now
		}
		fmt.Fprintf(out, "run %s: %s%s, in %s\n", s.Name, s.Phase, measured, s.Path)
		for _, by := range slices.Sorted(maps.Keys(s.Collectors)) {
			fmt.Fprintf(out, "collected by %s: the logs of %s\n", by,
				command.Plural(s.Collectors[by], "node"))
		}
		writeSilent(out, s)
		for _, m := range s.Missing {
			fmt.Fprintf(out, "missing: %s\n", command.Line(m.String()))
		}
	}
	switch {
	case s == nil:
		return nil
	case s.Problem != "":
		return fmt.Errorf("run %s is not whole: %s", s.Name, s.Problem)
	case len(s.Missing) > 0:
		return fmt.Errorf("run %s lacks %s: %w", s.Name, command.Plural(len(s.Missing), "part"),
			command.ErrPartial)
	}
	return nil
}
