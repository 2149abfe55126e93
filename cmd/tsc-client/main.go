package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	os.Exit(run(ctx, os.Args[1:], os.Stdout, os.Stderr))
}

// errUsage is wrapped by what is wrong with the command line or the configuration: exit code 2.
var errUsage = errors.New("wrong configuration")

func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	cmd := newCommand(stderr)
	cmd.SetArgs(args)
	cmd.SetOut(stdout)
	cmd.SetErr(stderr)
	begun := false
	own := cmd.RunE
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		begun = true
		return own(cmd, args)
	}
	err := cmd.ExecuteContext(ctx)
	if err == nil {
		return 0
	}
	fmt.Fprintf(stderr, "tsc-client: %v\n", err)
	if !begun || errors.Is(err, errUsage) {
		fmt.Fprintln(stderr, `see "tsc-client --help"`)
		return 2
	}
	return 1
}

func newCommand(stderr io.Writer) *cobra.Command {
	var file string
	var check bool
	cmd := &cobra.Command{
		Use:   "tsc-client",
		Short: "Answer probes and run trains, so that this node's counter can be related to others'",
		Long: `Answer probes and run trains of probes, so that this node's counter can be related to those of others.

It is commanded by a tsc-server (--server), or by "cprof relate" (--command). Without keys it listens on this machine alone and takes
commands from this machine alone; "cprof keys" makes keys. A node that runs cp-agent needs no tsc-client.

The configuration is a YAML file, in which each key is named as its flag with '_' for '-'; flags count more than environment
variables (TSC_CLIENT_SERVER for --server), and these more than the file.

Exit code 2: something is wrong with the configuration. SIGTERM and SIGINT end it.`,
		Example: `  tsc-client
  tsc-client --command 127.0.0.1:7340 --listen 127.0.0.1:7341
  tsc-client --config /etc/cloudprofiler/tsc-client.yaml
  tsc-client --config tsc-client.yaml --check
  tsc-client --server clocks.example:7330 --key node.secret --server-key server.public --listen 0.0.0.0:7341`,
		Args:          cobra.NoArgs,
		SilenceErrors: true,
		SilenceUsage:  true,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := readConfig(file, cmd)
			if err != nil {
				return fmt.Errorf("%w: %w", errUsage, err)
			}
			if check {
				_, err := fmt.Fprintln(cmd.OutOrStdout(), "the configuration can be used")
				return err
			}
			return serve(cmd.Context(), c, slog.New(slog.NewTextHandler(stderr, nil)))
		},
	}
	cmd.Flags().StringVar(&file, "config", "", "read this YAML `file`")
	cmd.Flags().BoolVar(&check, "check", false, "say whether the configuration can be used, and end")
	addFlags(cmd)
	return cmd
}
