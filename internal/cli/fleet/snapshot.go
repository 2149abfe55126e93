package fleet

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"github.com/cloudprofiler/cloudprofiler/agent"
	"github.com/cloudprofiler/cloudprofiler/coordinator"
	"github.com/cloudprofiler/cloudprofiler/internal/command"
)

func newSnapshot() *cobra.Command {
	var dir, channels string
	var asJSON, fleet bool
	var server serverFlags
	cmd := &cobra.Command{
		Use:   "snapshot",
		Short: "Write the events in flight recorders to the logs",
		Long: `Write the events in flight recorders to the logs. A flight recorder is a channel with
policy overwrite, and keeps only the newest events.

With --fleet, or if --server or $CLOUDPROFILER_SERVER names a server, the server asks the agents of
all nodes. In all other cases, and with --rings, only this node's agent writes its events.

An agent does not write an event twice. A program can ask for the same by Channel.Snapshot, or
cp_snapshot in C. If the program's agent has a server, the request also reaches the other nodes.

Exit code 3: no flight recorder matches the pattern.`,
		Example: "  cprof snapshot\n  cprof snapshot --channel 'parser*/start'\n  cprof snapshot " +
			"--fleet\n  cprof snapshot --json",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			named := cmd.Flags().Changed
			if fleet || named("server") ||
				os.Getenv("CLOUDPROFILER_SERVER") != "" && !named("rings") {
				return snapshotFleet(cmd, &server, channels, asJSON)
			}
			local, err := agent.Connect(dir)
			var s agent.SnapshotAnswer
			if err == nil {
				s, err = local.Snapshot(cmd.Context(), channels)
			}
			if errors.Is(err, agent.ErrNoAgent) {
				err = fmt.Errorf("%w; --fleet asks the agents of all nodes", err)
			}
			if err != nil {
				return err
			}
			if asJSON {
				err = json.NewEncoder(cmd.OutOrStdout()).Encode(s)
			} else {
				_, err = fmt.Fprintf(cmd.OutOrStdout(), "%s, %s rows written\n",
					command.Plural(s.Channels, "flight recorder"), command.Thousands(s.Records))
			}
			if err == nil && s.Channels == 0 {
				return fmt.Errorf("no channel on this node has policy overwrite%s (--fleet asks "+
					"all nodes): %w", matchPhrase(channels), command.ErrPartial)
			}
			return err
		},
	}
	command.RingsFlag(cmd, &dir)
	server.add(cmd)
	cmd.Flags().BoolVar(&fleet, "fleet", false,
		"ask the server for a snapshot on every node, also if no server is named")
	cmd.Flags().StringVar(&channels, "channel", "",
		"pattern of channels' names, as in the handler table (default: all)")
	command.CompleteFlag(cmd, "channel",
		command.CompleteChannels(&dir, 1, cobra.ShellCompDirectiveNoFileComp))
	cmd.Flags().BoolVar(&asJSON, "json", false, "print one JSON object")
	return cmd
}

// snapshotFleet asks the server for a snapshot on every node, and prints the results.
func snapshotFleet(cmd *cobra.Command, server *serverFlags, channels string, asJSON bool) error {
	var results []coordinator.SnapshotResult
	request := coordinator.SnapshotRequest{Channels: channels, Reason: "cprof snapshot"}
	if err := server.askOnce(cmd, coordinator.AskSnapshot, request, &results); err != nil {
		return err
	}
	var failed, total int
	for _, r := range results {
		total += r.Channels
		if r.Error != "" {
			failed++
		}
		var err error
		switch {
		case asJSON:
			err = json.NewEncoder(cmd.OutOrStdout()).Encode(r)
		case r.Error != "":
			_, err = fmt.Fprintf(cmd.OutOrStdout(), "%-20s %s\n", r.Node, command.Line(r.Error))
		default:
			_, err = fmt.Fprintf(cmd.OutOrStdout(), "%-20s %s, %s rows written\n", r.Node,
				command.Plural(r.Channels, "flight recorder"), command.Thousands(r.Records))
		}
		if err != nil {
			return err
		}
	}
	switch {
	case failed > 0:
		return fmt.Errorf("%d of %d nodes failed: %w", failed, len(results), command.ErrPartial)
	case total == 0:
		return fmt.Errorf("no channel on %d nodes has policy overwrite%s: %w",
			len(results), matchPhrase(channels), command.ErrPartial)
	}
	return nil
}

// matchPhrase returns the part of a printed sentence that says which names a pattern matches. It
// returns "" if the pattern matches all names.
func matchPhrase(pattern string) string {
	if pattern == "" {
		return ""
	}
	return fmt.Sprintf(" and a name that matches %q", pattern)
}
