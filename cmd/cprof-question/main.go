package main

import (
	"os"

	"github.com/spf13/cobra"

	"github.com/cloudprofiler/cloudprofiler/internal/command"
	"github.com/cloudprofiler/cloudprofiler/internal/daemon"
	"github.com/cloudprofiler/cloudprofiler/replay/question"
)

func main() {
	os.Exit(command.Run(daemon.UntilSignal(), &cobra.Command{
		Use:   "cprof-question",
		Short: "Look for an order in which a condition holds, for cprof replay --find",
		Long: `Look for an order in which a condition holds. cprof replay --find starts this
program, writes a question in JSON to it, and reads the answer in JSON.`,
		Version: daemon.Version("cprof-question"),
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return question.Answer(cmd.Context(), cmd.InOrStdin(), cmd.OutOrStdout())
		},
	}, os.Args[1:], os.Stdout, os.Stderr))
}
