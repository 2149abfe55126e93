package fleet

import (
	"github.com/spf13/cobra"

	"github.com/cloudprofiler/cloudprofiler/coordinator"
)

func newNode() *cobra.Command {
	node := &cobra.Command{
		Use:     "node",
		Short:   "Change what the server knows about single nodes",
		Example: "  cprof node forget beta",
	}
	node.AddCommand(newNodeForget())
	return node
}

func newNodeForget() *cobra.Command {
	var server serverFlags
	cmd := &cobra.Command{
		Use:   "forget NAME...",
		Short: "Make the server forget nodes that are gone for good",
		Long: `Make the server forget nodes that are gone for good: they no longer count as
unhealthy, and the server drops all measurements with them. Runs with these nodes stay as they are.

The server does not forget a node that is connected, or a node that takes part in the present run.
If a forgotten node comes back, the server measures it like any other node. To keep a node out, also
remove its key (clients/NAME.public).`,
		Example: "  cprof node forget beta\n  cprof node forget beta gamma",
		Args:    cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return server.askEach(cmd, args, "forgot", coordinator.AskForgetNode,
				func(name string) any { return coordinator.NodeRequest{Name: name} })
		},
	}
	server.add(cmd)
	cmd.ValidArgsFunction = server.completeNodes(anyNumber)
	return cmd
}
