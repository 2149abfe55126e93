package rings

import (
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"sync"

	"github.com/spf13/cobra"

	"github.com/cloudprofiler/cloudprofiler/drain"
	"github.com/cloudprofiler/cloudprofiler/host"
	"github.com/cloudprofiler/cloudprofiler/internal/command"
	"github.com/cloudprofiler/cloudprofiler/logstore"
)

func newRingSalvage() *cobra.Command {
	var dir, to, node string
	cmd := &cobra.Command{
		Use:   "salvage [RING...]",
		Short: "Move the events that dead programs left in rings into logs",
		Long: `Move the events that dead programs left in rings into logs, as the agent would, and
remove the rings. If the directory for the logs has a log of the ring already, the command continues
that log. So use the agent's directory of logs, or that of a run (RUN/logs/NODE), to join the events
in the ring with earlier events. The command does not change live rings. While an agent drains the
rings, the command does nothing, because the agent does the same.

Without RING, the command rescues every orphan. RING is a file, or the beginning of a channel's name
or of an incarnation. To look at a ring without changing it, use "cprof ring dump". Exit code 3: the
command could not rescue some rings, but has rescued the others.`,
		Example: "  cprof ring salvage --to ./rescued\n  cprof ring salvage parser --to " +
			"runs/tuesday/logs/worker-1 --node worker-1",
		RunE: func(cmd *cobra.Command, args []string) error {
			return salvageRings(cmd.OutOrStdout(), dir, drain.Options{Logs: to, Node: node}, args)
		},
	}
	command.RingsFlag(cmd, &dir)
	cmd.ValidArgsFunction = command.CompleteChannels(&dir, 1<<30,
		cobra.ShellCompDirectiveDefault)
	cmd.Flags().StringVar(&to, "to", drain.DefaultLogs, "directory for the logs")
	cmd.Flags().StringVar(&node, "node", "", "the node's name in the logs (default: the host's)")
	return cmd
}

func salvageRings(w io.Writer, dir string, o drain.Options, words []string) error {
	files, err := ringFiles(&dir)
	if err != nil {
		return err
	}
	if len(words) > 0 {
		files = nil
		for _, word := range words {
			file, err := chooseRing(dir, word)
			if err != nil {
				return err
			}
			files = append(files, file)
		}
	}
	if len(files) == 0 {
		fmt.Fprintf(w, "no rings in %s\n", dir)
		return nil
	}
	o.Epoch = sync.OnceValue(onlyEpoch)
	all, err := drain.Salvage(dir, files, o)
	if err != nil {
		return err
	}
	// If the directory has a manifest, the manifest must list the new logs, too.
	if _, err := logstore.ReadManifest(o.Logs); err == nil {
		wrote := func(s logstore.Segment) bool {
			return slices.ContainsFunc(all, func(one drain.Salvaged) bool {
				return one.Stats.Incarnation == s.Incarnation
			})
		}
		if err := logstore.ExtendManifest(o.Logs, wrote); err != nil {
			return fmt.Errorf("salvage rings: %w", err)
		}
	}
	var failed, live int
	for _, one := range all {
		switch {
		case errors.Is(one.Err, drain.ErrAlive):
			live++
		case one.Err != nil:
			failed++
			fmt.Fprintf(w, "cannot rescue: %v\n", one.Err)
		default:
			fmt.Fprintf(w, "%s: %d events to %s", one.Stats.Channel, one.Stats.Events, o.Logs)
			if n := one.Stats.Missing; n > 0 {
				fmt.Fprintf(w, "; %d earlier events are in no log there", n)
			}
			fmt.Fprintln(w)
		}
	}
	if live > 0 {
		fmt.Fprintf(w, "%d live rings left alone\n", live)
	}
	if failed > 0 {
		return fmt.Errorf("%d of %d rings could not be rescued: %w",
			failed, len(files), command.ErrPartial)
	}
	return nil
}

// onlyEpoch returns the name of the counter's present epoch, unless this machine has slept since it
// started. After a sleep, a ring may be of an earlier epoch, so onlyEpoch returns "".
func onlyEpoch() string {
	observe := host.Observer{Root: os.DirFS("/"), Clocks: host.SystemClocks()}.Observe
	watch, err := host.NewWatch(host.WatchOptions{Observe: observe})
	if err != nil || watch.Epoch().Sleep != 0 {
		return ""
	}
	return watch.Epoch().String()
}
