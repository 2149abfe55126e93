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
		Short: "Move what dead programs left in rings into logs",
		Long: `Move what dead programs left in rings into logs, as the agent would, and remove the
rings. A log that was begun in the directory is continued: with the directory of the agent, or of a
run (RUN/logs/NODE), what was in the ring joins what came before. Live rings are left alone. While
an agent drains the directory, nothing is done, because the agent does the same.

Without RING every orphan is rescued. RING is a file, or the start of a channel's name or of an
incarnation. To look at a ring without changing it, use "cprof ring dump". Exit code 3: some rings
could not be rescued; the others were.`,
		Example: "  cprof ring salvage --to ./rescued\n  cprof ring salvage parser --to " +
			"runs/tuesday/logs/worker-1 --node worker-1",
		RunE: func(cmd *cobra.Command, args []string) error {
			return salvageRings(cmd.OutOrStdout(), dir, drain.Options{Logs: to, Node: node}, args)
		},
	}
	command.RingsFlag(cmd, &dir)
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
	// A directory whose manifest stated that it was complete has more logs now.
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
				fmt.Fprintf(w, "; %d earlier ones are in no log there", n)
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

// onlyEpoch returns the name that the agent gives this boot's epoch. It returns "" if a ring may be
// of an earlier epoch.
func onlyEpoch() string {
	observe := host.Observer{Root: os.DirFS("/"), Clocks: host.SystemClocks()}.Observe
	watch, err := host.NewWatch(host.WatchOptions{Observe: observe})
	if err != nil || watch.Epoch().Sleep != 0 {
		return ""
	}
	return watch.Epoch().String()
}
