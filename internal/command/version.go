package command

import (
	"fmt"

	"github.com/spf13/cobra"
)

// AnswerVersion gives cmd the flag --version, which prints line alone. Call it once cmd has its RunE.
// Cobra's own flag prints by a template, which links package text/template and, for its sake, every
// method that is exported: three megabytes of a daemon.
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
