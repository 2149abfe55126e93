package rings

import (
	"encoding/json"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/cloudprofiler/cloudprofiler/agent"
	"github.com/cloudprofiler/cloudprofiler/internal/command"
)

func newAgent() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "agent",
		Short: "Ask this node's agent, and record runs on one node",
		Long: `Ask this node's agent, and record runs on one node.

The agent is cp-agent, which drains the rings of this user's programs. It answers at a socket in the
directory of the rings. Only the user may open this socket.`,
		Example: `  cprof agent status
  cprof agent begin tuesday
  cprof agent end tuesday`,
	}
	cmd.AddCommand(newAgentStatus(), newAgentFlush(), newAgentBegin(), newAgentEnd())
	return cmd
}

func newAgentStatus() *cobra.Command {
	var dir string
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "status",
		Short: "Show what this node's agent does",
		Long: `Show what this node's agent does: which rings it drains, what was lost and why, and
which handler table applies.

Exit code 3: the agent gives a warning.`,
		Example: "  cprof agent status\n  cprof agent status --json | jq .total",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			local, err := agent.Connect(dir)
			if err != nil {
				return err
			}
			s, err := local.Status(cmd.Context())
			if err != nil {
				return err
			}
			if asJSON {
				err = json.NewEncoder(cmd.OutOrStdout()).Encode(s)
			} else {
				err = printAgent(cmd.OutOrStdout(), s)
			}
			if err == nil && len(s.Warnings) > 0 {
				return fmt.Errorf("%d warnings above: %w", len(s.Warnings), command.ErrPartial)
			}
			return err
		},
	}
	command.RingsFlag(cmd, &dir)
	cmd.Flags().BoolVar(&asJSON, "json", false, "print one JSON object")
	return cmd
}

func printAgent(w io.Writer, s agent.Status) error {
	run, table, server, chrony := "none", s.Table.Source, "none", "claims nothing"
	if s.Run != "" {
		run = s.Run
	}
	if s.Table.Generation > 0 {
		table = fmt.Sprintf("%s, generation %d", table, s.Table.Generation)
	}
	if s.Link.Server != "" {
		server = s.Link.Server + ", away"
		if s.Link.Connected {
			server = s.Link.Server + ", connected"
		}
	}
	switch {
	case s.Chrony.Bounded:
		chrony = fmt.Sprintf("within %.1f µs of UTC, by its claim", float64(s.Chrony.Bound_ns)/1e3)
	case s.Chrony.Error != "":
		chrony = s.Chrony.Error
	}
	fmt.Fprintf(w, "node           %s, process %d, running for %s\n", s.Node, s.ProcessID,
		time.Since(s.Started).Round(time.Second))
	fmt.Fprintf(w, "run            %s\nlogs           %s\nhandler table  %s\nserver         "+
		"%s\nchrony         %s\n", run, s.Logs, table, server, chrony)
	fmt.Fprintf(w, "events         %s came, %s rows in %s bytes of logs; %d rings ended and are "+
		"in their logs\n", command.Thousands(s.Total.Events), command.Thousands(s.Total.Rows),
		command.Thousands(s.Total.LogBytes), s.Finished)
	fmt.Fprintf(w, "not in a log   %d dropped by programs, %d not stored at a limit, %d over "+
		"their rate, %d missing, %d in rings set aside\n\n", s.Total.Dropped, s.Total.NotStored,
		s.Total.OverRate, s.Total.Missing, s.Total.Unread)
	if len(s.Channels) == 0 {
		fmt.Fprintln(w, "no program has a channel open")
	} else {
		fmt.Fprintf(w, "%-28s %8s %-16s %-10s %-9s %14s %10s %10s\n", "channel", "process",
			"handler", "full ring", "state", "events", "waiting", "dropped")
	}
	for _, c := range s.Channels {
		state := "ended"
		switch {
		case c.SetAside:
			state = "set aside"
		case c.Alive:
			state = "runs"
		}
		if _, err := fmt.Fprintf(w, "%-28s %8d %-16s %-10s %-9s %14s %10d %10d\n",
			c.Channel, c.ProcessID, c.Handler, c.Policy, state, command.Thousands(c.Events),
			c.Waiting, c.Counts.Dropped); err != nil {
			return err
		}
	}
	told := map[string]bool{}
	for _, c := range s.Channels {
		line := fmt.Sprintf("process %d is in %s", c.ProcessID, c.Place)
		if c.Place != "" && !told[line] {
			told[line] = true
			fmt.Fprintln(w, line)
		}
	}
	for _, warning := range s.Warnings {
		if _, err := fmt.Fprintf(w, "\n! %s\n", warning); err != nil {
			return err
		}
	}
	return nil
}

func newAgentFlush() *cobra.Command {
	var dir string
	cmd := &cobra.Command{
		Use:     "flush",
		Short:   "Write the present content of the rings to the logs",
		Long:    "Write the present content of the rings to the logs, and return when it is there.",
		Example: "  cprof agent flush",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			local, err := agent.Connect(dir)
			if err != nil {
				return err
			}
			return local.Flush(cmd.Context())
		},
	}
	command.RingsFlag(cmd, &dir)
	return cmd
}

func newAgentBegin() *cobra.Command {
	var dir string
	cmd := &cobra.Command{
		Use:   "begin NAME",
		Short: "Begin a run on this node",
		Long: `Begin a run on this node: until "cprof agent end", the agent writes all events to the
logs of the run. This command is for one node without a server. A server opens and closes a run on
all of its nodes.`,
		Example: "  cprof agent begin tuesday",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			local, err := agent.Connect(dir)
			if err != nil {
				return err
			}
			r, err := local.OpenRun(cmd.Context(), args[0])
			if err != nil {
				return err
			}
			_, err = fmt.Fprintf(cmd.OutOrStdout(), "run %s is open, %d channels, in %s\n",
				r.Name, r.Channels, r.Directory)
			return err
		},
	}
	command.RingsFlag(cmd, &dir)
	return cmd
}

func newAgentEnd() *cobra.Command {
	var dir string
	cmd := &cobra.Command{
		Use:   "end NAME",
		Short: "End a run on this node",
		Long: `End a run on this node. When the command returns, the run's logs have all events that
programs have logged until now.

Exit code 3: parts are missing in the logs, and the logs say which.`,
		Example: "  cprof agent end tuesday",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			local, err := agent.Connect(dir)
			if err != nil {
				return err
			}
			r, err := local.CloseRun(cmd.Context(), args[0])
			if err != nil {
				return err
			}
			fmt.Fprintf(cmd.OutOrStdout(), "run %s is closed, %d channels, in %s\n",
				r.Name, r.Channels, r.Directory)
			for _, m := range r.Missing {
				fmt.Fprintf(cmd.OutOrStdout(), "! %s\n", m)
			}
			if len(r.Missing) > 0 {
				return fmt.Errorf("the run lacks %s: %w", command.Plural(len(r.Missing), "part"),
					command.ErrPartial)
			}
			return nil
		},
	}
	command.RingsFlag(cmd, &dir)
	return cmd
}
