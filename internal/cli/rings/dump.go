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
		Short: "Print the content of a ring, one event on each line",
		Long: `Print the content of a ring, one event on each line: shard, sequence number, counter,
id. Lines that begin with # describe the ring. They also say from which sequence number on each
handler applies, and which events were dropped.

RING is a file, or the beginning of a channel's name or of an incarnation. The command does not
change the ring.`,
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
	cmd.ValidArgsFunction = command.CompleteChannels(&dir, 1, cobra.ShellCompDirectiveDefault)
	return cmd
}
