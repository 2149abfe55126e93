package cli

import (
	"context"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/cloudprofiler/cloudprofiler/internal/cli/answers"
	"github.com/cloudprofiler/cloudprofiler/internal/cli/fleet"
	"github.com/cloudprofiler/cloudprofiler/internal/cli/gen"
	"github.com/cloudprofiler/cloudprofiler/internal/cli/java"
	"github.com/cloudprofiler/cloudprofiler/internal/cli/logs"
	"github.com/cloudprofiler/cloudprofiler/internal/cli/machine"
	"github.com/cloudprofiler/cloudprofiler/internal/cli/record"
	"github.com/cloudprofiler/cloudprofiler/internal/cli/relations"
	"github.com/cloudprofiler/cloudprofiler/internal/cli/rings"
	"github.com/cloudprofiler/cloudprofiler/internal/cli/sim"
	"github.com/cloudprofiler/cloudprofiler/internal/command"
)

// Run runs cprof with args, the command line without the program's name, and returns the exit code.
// If ctx is cancelled, the subcommand ends early and counts as failed.
func Run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	return command.Run(ctx, newRoot(), args, stdout, stderr)
}

func newRoot() *cobra.Command {
	root := &cobra.Command{
		Use:     "cprof",
		Short:   "Measure durations between machines in CPU cycles, with a bound",
		Version: thisVersion(),
		Long: `cprof measures durations that start on one machine and end on another, in CPU cycles,
and prints a bound beside every one of them.

Exit codes: 0 answered, 1 failed, 2 wrong usage, 3 answered with suspect or missing parts.`,
		Example: `  cprof demo
  cprof record ./program
  cprof doctor
  cprof nodes
  cprof run start tuesday
  cprof analyze runs/tuesday
  cprof report runs/tuesday
  cprof version
  cprof help version`,
	}
	root.AddCommand(newDemo(), newVersion(), &cobra.Command{
		Use: "man", Short: "Print the manual page", Hidden: true, Args: cobra.NoArgs,
		Long: "Print the manual page, for packages.", Example: "  cprof man",
		RunE: func(cmd *cobra.Command, _ []string) error {
			_, err := fmt.Fprint(cmd.OutOrStdout(), command.Man(cmd.Root(), 1, thisVersion()))
			return err
		},
	})
	for _, family := range [][]*cobra.Command{
		answers.Commands(),
		fleet.Commands(java.CheckSettings, sim.Check),
		gen.Commands(),
		java.Commands(),
		logs.Commands(),
		machine.Commands(),
		relations.Commands(),
		record.Commands(answers.Analyze),
		rings.Commands(),
		sim.Commands(),
	} {
		root.AddCommand(family...)
	}
	return root
}
