package command

import (
	"fmt"

	"github.com/spf13/cobra"
)

// AnswerVersion adds the flag --version, which prints the given line and nothing else. Call
// AnswerVersion after cmd.RunE is set. Cobra's own flag prints with a template, and so links
// package text/template. That package makes the linker keep every exported method, which adds three
// megabytes to a daemon.
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
