package rings

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/cloudprofiler/cloudprofiler/agent"
	"github.com/cloudprofiler/cloudprofiler/internal/command"
)

func newCapture() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "capture",
		Short: "See the messages that unchanged programs exchange",
		Long: `See the messages that unchanged programs exchange over sockets.

While the agent captures, it logs each message of every program on this machine: which socket and
thread sent or received it, how many bytes, and when. It never looks at the bytes. In a run, "cprof
analyze" shows which program sends to which, and how long the transfers took.

The agent must have the rights to capture: start cp-agent as root, with --capture ready or on.
"cprof doctor" says whether this machine's kernel allows it.`,
		Example: `  cprof capture start
  cprof capture status
  cprof capture stop`,
	}
	order := func(use, short string, do func(*agent.Local, context.Context) (agent.CaptureStatus,
		error)) *cobra.Command {
		var dir string
		var asJSON bool
		one := &cobra.Command{
			Use: use, Short: short, Long: short + ".", Args: cobra.NoArgs,
			Example: "  cprof capture " + use,
			RunE: func(cmd *cobra.Command, _ []string) error {
				local, err := agent.Connect(dir)
				if err != nil {
					return err
				}
				s, err := do(local, cmd.Context())
				if err != nil {
					return err
				}
				if asJSON {
					return json.NewEncoder(cmd.OutOrStdout()).Encode(s)
				}
				return printCapture(cmd.OutOrStdout(), s)
			},
		}
		command.RingsFlag(one, &dir)
		one.Flags().BoolVar(&asJSON, "json", false, "print one JSON object")
		return one
	}
	cmd.AddCommand(
		order("start", "Begin to capture messages", (*agent.Local).StartCapture),
		order("stop", "End the capture", (*agent.Local).StopCapture),
		order("status", "Show whether the agent captures, and what it lost",
			func(l *agent.Local, ctx context.Context) (agent.CaptureStatus, error) {
				s, err := l.Status(ctx)
				return s.Capture, err
			}),
	)
	return cmd
}

func printCapture(w io.Writer, s agent.CaptureStatus) error {
	if !s.Running {
		_, err := fmt.Fprintln(w, "the agent does not capture messages")
		return err
	}
	fmt.Fprintf(w, "capturing messages for %s: %s so far, of %s\n",
		time.Since(s.Since).Round(time.Second), command.Thousands(s.Messages),
		command.Plural(s.Sockets, "socket"))
	for _, reason := range slices.Sorted(maps.Keys(s.Lost)) {
		fmt.Fprintf(w, "! lost: %s, %s\n", command.Thousands(s.Lost[reason]), reason)
	}
	if s.Dropped > 0 {
		fmt.Fprintf(w, "! dropped: %s events, half messages, because the ring was full\n",
			command.Thousands(s.Dropped))
	}
	if s.Error != "" {
		fmt.Fprintf(w, "! %s\n", s.Error)
	}
	return nil
}
