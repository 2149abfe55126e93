package fleet

import (
	"context"
	"os"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/cloudprofiler/cloudprofiler/coordinator"
	"github.com/cloudprofiler/cloudprofiler/internal/command"
	"github.com/cloudprofiler/cloudprofiler/runs"
)

// completionLimit is how long a shell that completes a word waits for the server.
const completionLimit = 700 * time.Millisecond

// complete offers names to a shell, for at most the given number of arguments. The function names
// asks the server for them. If the server does not answer in time, the shell gets no names.
func (s *serverFlags) complete(most int,
	names func(ask func(what string, result any) error) []string) cobra.CompletionFunc {
	return func(cmd *cobra.Command, args []string, typed string) (
		[]string, cobra.ShellCompDirective,
	) {
		const no = cobra.ShellCompDirectiveNoFileComp
		if len(args) >= most || os.Getenv("CLOUDPROFILER_SERVER") == "" &&
			!cmd.Flags().Changed("server") {
			return nil, no
		}
		link, err := s.dial(cmd)
		if err != nil {
			return nil, no
		}
		defer link.Close()
		ctx, cancel := context.WithTimeout(cmd.Context(), completionLimit)
		defer cancel()
		found := names(func(what string, result any) error {
			return link.Client.Ask(ctx, what, nil, result)
		})
		found = slices.DeleteFunc(found, func(name string) bool {
			return runs.CheckNodeName(name) != nil || slices.Contains(args, name)
		})
		return command.Matching(found, typed), no
	}
}

// anyNumber tells complete that a command takes any number of arguments.
const anyNumber = 1 << 30

// completeRuns offers those of the server's runs for which want returns true.
func (s *serverFlags) completeRuns(most int,
	want func(coordinator.RunEntry) bool) cobra.CompletionFunc {
	return s.complete(most, func(ask func(string, any) error) (names []string) {
		var entries []coordinator.RunEntry
		if ask(coordinator.AskRuns, &entries) != nil {
			return nil
		}
		for _, e := range entries {
			if want(e) {
				names = append(names, e.Name)
			}
		}
		return names
	})
}

// completeNodes offers the nodes that the server knows, including nodes that are gone.
func (s *serverFlags) completeNodes(most int) cobra.CompletionFunc {
	return s.complete(most, func(ask func(string, any) error) (names []string) {
		var matrix coordinator.Matrix
		if ask(coordinator.AskNodes, &matrix) != nil {
			return nil
		}
		for _, n := range matrix.Nodes {
			names = append(names, n.Name)
		}
		return names
	})
}
