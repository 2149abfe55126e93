package command

import (
	"fmt"

	"github.com/spf13/cobra"
)

// AnswerVersion adds the flag --version, which prints line alone. Call it after cmd has its RunE.
// Cobra's own flag prints with a template. That links package text/template, which keeps every
// exported method in the binary: three megabytes of a daemon.
func AnswerVersion(cmd *cobra.Command, line string) {
	wanted := cmd.Flags().Bool("version", false, "print which build this is")
	own := cmd.RunE
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if *wanted {
			_, err := fmt.Fprintln(cmd.OutOrStdout(), line)
			return err
		}
		return own(cmd, args)
	}
}
