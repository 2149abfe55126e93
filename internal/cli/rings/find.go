package rings

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/cloudprofiler/cloudprofiler/agent"
	"github.com/cloudprofiler/cloudprofiler/channel"
	"github.com/cloudprofiler/cloudprofiler/internal/command"
)

func newFind() *cobra.Command {
	var dir string
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "find PATTERN",
		Short: "Find a node of a large fleet by what it says about itself",
		Long: `Find a node of a large fleet by what it says about itself. Each node publishes
these facts:

  role=ROLE            what its configuration says (role)
  kernel=RELEASE       the kernel
  clocksource=NAME     the kernel's clocksource
  channel=NAME         a channel that a program has open now
  facts=incomplete     the node has more facts than the 31 that it can say

PATTERN is a whole fact. In it, * stands for any text, also with a slash, and ? for one character.
If a channel's name in PATTERN has no #, it means all instances of that operator, as in a handler
table. The command asks this node's agent, which asks other nodes without the server. The node that
is found has confirmed the fact itself. In fleets of up to 30 nodes (the server's setting
all_pairs), the agent knows only the facts of its own node.

If no node is found, the command says how probable it is that one has the fact and was missed.
This assumes that the nodes on the way are honest.

Exit code 3: no node is found.`,
		Example: "  cprof find 'channel=parser/*'\n  cprof find role=worker\n  cprof find --json " +
			"'kernel=6.1.*' | jq -r .node",
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := checkFact(args[0]); err != nil {
				return err
			}
			local, err := agent.Connect(dir)
			if err != nil {
				return err
			}
			f, err := local.Find(cmd.Context(), args[0])
			if err != nil {
				return err
			}
			if asJSON {
				err = json.NewEncoder(cmd.OutOrStdout()).Encode(f)
			} else {
				err = printFound(cmd.OutOrStdout(), args[0], f)
			}
			if err == nil && f.Node == "" {
				return fmt.Errorf("find %q: no node: %w", args[0], command.ErrPartial)
			}
			return err
		},
	}
	command.RingsFlag(cmd, &dir)
	cmd.Flags().BoolVar(&asJSON, "json", false, "print one JSON object")
	cmd.ValidArgsFunction = cobra.NoFileCompletions
	return cmd
}

// checkFact returns an error if a pattern can match no fact about a node. The error says why.
func checkFact(pattern string) error {
	if !strings.ContainsAny(pattern, "=*") {
		return command.Usagef("find %q: a fact has a key: give KEY=VALUE, such as role=worker",
			pattern)
	}
	if name, is := strings.CutPrefix(pattern, channel.FactChannel); is {
		if err := channel.CheckPattern(name); err != nil {
			return command.Usagef("find: %w", err)
		}
	}
	return nil
}

// If no node is found, the command prints the probability that it overlooked one. It prints no
// figure below this constant, because smaller estimates cannot be trusted.
const surely = 1e-9

func printFound(w io.Writer, pattern string, f agent.FindAnswer) (err error) {
	if f.Node == "" {
		missed := fmt.Sprintf("%.2g", f.Missed)
		if f.Missed < surely {
			missed = fmt.Sprintf("less than %.0g", surely)
		}
		_, err = fmt.Fprintf(w, "none: in %s visits, no node had a fact like %q. If a node has "+
			"one, it was missed with probability %s.\n", command.Thousands(uint64(f.Visited)),
			pattern, missed)
		return err
	}
	_, err = fmt.Fprintf(w, "%s  %s  (confirmed by the node itself)\n", command.Line(f.Node),
		command.Line(f.Fact))
	return err
}
