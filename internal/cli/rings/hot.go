package rings

import (
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/cloudprofiler/cloudprofiler/agent"
	"github.com/cloudprofiler/cloudprofiler/internal/command"
	"github.com/cloudprofiler/cloudprofiler/tscclient"
)

func newHot() *cobra.Command {
	var dir, by string
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "hot",
		Short: "Find the worst nodes of a large fleet",
		Long: `Find the worst nodes of a large fleet, by one of these (--by):

  bound      the largest plain bound with which the node measures one of its peers: half of the
             smallest round trip of a train
  dropped    events that programs dropped, in the channels that they have open now
  ring-fill  how full the fullest ring is, in percent

The command asks this node's agent. The agent does not ask the server: it sends questions from node
to node. Each node passes a question on to the neighbour beyond which it expects worse nodes. These
expectations may be some seconds old. So the first node in the list is probably, but not certainly,
the worst. Each printed value is from the node itself. In fleets of up to 30 nodes (the server's
setting all_pairs), use cprof nodes instead: there, agents do not answer this question.

Exit code 3: no node is found.`,
		Example: "  cprof hot --by dropped\n  cprof hot --by bound --json | jq -r '.nodes[0].node'",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if !slices.Contains(agent.Heats, by) {
				return command.Usagef("--by %q: want one of %s", by,
					strings.Join(agent.Heats, ", "))
			}
			local, err := agent.Connect(dir)
			if err != nil {
				return err
			}
			h, err := local.Hot(cmd.Context(), by)
			if err != nil {
				return err
			}
			if asJSON {
				err = json.NewEncoder(cmd.OutOrStdout()).Encode(h)
			} else {
				err = printHot(cmd.OutOrStdout(), h)
			}
			if err == nil && len(h.Nodes) == 0 {
				return fmt.Errorf("hot by %s: no node: %w", by, command.ErrPartial)
			}
			return err
		},
	}
	command.RingsFlag(cmd, &dir)
	cmd.Flags().StringVar(&by, "by", tscclient.HeatBound, "what is bad: "+
		strings.Join(agent.Heats, ", "))
	cmd.Flags().BoolVar(&asJSON, "json", false, "print one JSON object")
	cmd.ValidArgsFunction = cobra.NoFileCompletions
	return cmd
}

func printHot(w io.Writer, h agent.HotAnswer) error {
	if len(h.Nodes) == 0 {
		what := map[string]string{
			tscclient.HeatBound: "it measures a peer", agent.HeatRingFill: "a ring holds events",
			agent.HeatDropped: "a program dropped events",
		}
		_, err := fmt.Fprintf(w, "none: no node says that %s\n", what[h.By])
		return err
	}
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	for _, n := range h.Nodes {
		value := command.Thousands(n.Value)
		switch h.By {
		case tscclient.HeatBound:
			value = "± " + time.Duration(min(n.Value, 1<<62)).String()
		case agent.HeatDropped:
			value += " dropped"
		case agent.HeatRingFill:
			value += " %"
		}
		fmt.Fprintf(table, "%s\t%s\n", command.Line(n.Node), value)
	}
	return table.Flush()
}
