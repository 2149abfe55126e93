package cli

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/cloudprofiler/cloudprofiler/internal/daemon"
)

func newVersion() *cobra.Command {
	return &cobra.Command{
		Use:     "version",
		Short:   "Print which build this is",
		Args:    cobra.NoArgs,
		Example: "  cprof version",
		RunE: func(cmd *cobra.Command, _ []string) error {
			_, err := fmt.Fprintln(cmd.OutOrStdout(), thisVersion())
			return err
		},
	}
}

// thisVersion returns one line that identifies this build.
func thisVersion() string { return daemon.Version("cprof") }
