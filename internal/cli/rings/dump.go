package rings

import (
	"bufio"

	"github.com/spf13/cobra"

	"github.com/cloudprofiler/cloudprofiler/internal/command"
	"github.com/cloudprofiler/cloudprofiler/ring"
)

func newRingDump() *cobra.Command {
	var dir string
	cmd := &cobra.Command{
		Use:   "dump RING",
		Short: "Print what a ring holds, one event a line",
		Long: `Print what a ring holds, one event a line: shard, sequence, counter, id. Lines that
begin with # say what the ring is, which handler holds from which sequence on, and what was dropped.

RING is a file, or the start of a channel's name or of an incarnation. Reading removes nothing.`,
		Example: "  cprof ring dump parser/start\n  cprof ring dump 3f9a",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			file, err := chooseRing(dir, args[0])
			if err != nil {
				return err
			}
			r, err := ring.Open(file)
			if err != nil {
				return err
			}
			defer r.Close()
			out := bufio.NewWriter(cmd.OutOrStdout())
			if _, err := writeRing(out, r); err != nil {
				return err
			}
			return out.Flush()
		},
	}
	command.RingsFlag(cmd, &dir)
	return cmd
}
