package fleet

import (
	"github.com/spf13/cobra"

	"github.com/cloudprofiler/cloudprofiler/coordinator"
)

func newNode() *cobra.Command {
	node := &cobra.Command{
		Use:     "node",
		Short:   "Change what the server knows of single nodes",
		Example: "  cprof node forget beta",
	}
	node.AddCommand(newNodeForget())
	return node
}

func newNodeForget() *cobra.Command {
	var server serverFlags
	cmd := &cobra.Command{
		Use:   "forget NAME...",
		Short: "Have the server forget nodes that are gone for good",
		Long: `Have the server forget nodes that are gone for good: they no longer count as
unhealthy, and nothing that was measured with them is kept or evaluated. Runs that were made with
them stay as they are.

The server does not forget a node that is connected, or one that takes part in the current run. A
node that comes back is measured again, like any other. To keep it out, remove its key as well
(clients/NAME.public).`,
		Example: "  cprof node forget beta\n  cprof node forget beta gamma",
		Args:    cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return server.each(cmd, args, "forgot", coordinator.AskForgetNode,
				func(name string) any { return coordinator.NodeRequest{Name: name} })
		},
	}
	server.add(cmd)
	return cmd
}
