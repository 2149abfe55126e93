package sim

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/cloudprofiler/cloudprofiler/internal/command"
	"github.com/cloudprofiler/cloudprofiler/internal/plainfile"
	"github.com/cloudprofiler/cloudprofiler/sim"
	"github.com/cloudprofiler/cloudprofiler/sim/config"
	"github.com/cloudprofiler/cloudprofiler/sim/library"
	"github.com/cloudprofiler/cloudprofiler/sim/server"
)

func newSim() *cobra.Command {
	var o options
	var set []string
	cmd := &cobra.Command{
		Use:   "sim CONFIGURATION",
		Short: "Simulate a network of up to millions of nodes, from a configuration of PeerSim",
		Long: `Simulate a network of up to millions of nodes, from a configuration of PeerSim.

The observers of the configuration print to standard output. For a fleet of agents, the output ends
with a sentence that says how narrow the bounds were, how many agents died, and how often agents
measured. If a key has a range, one simulation runs for each value, one after the other; --page
compares them. Any number of workers gives the same result, bit by bit.

With --checkpoint, the event engine saves its state again and again. --restart continues from a
saved state, with any number of workers. docs/sim.md lists the classes and explains how the
simulator differs from PeerSim.`,
		Example: `  cprof sim average.conf
  cprof sim average.conf --set network.size=1000000 --workers 4
  cprof sim fleet.conf --page fleet.html
  cprof sim fleet.conf --set 'range.0=CHURN;0,0.001,0.01' --page churn.html
  cprof sim average.conf --checkpoint average.checkpoint --every 10s
  cprof sim average.conf --restart average.checkpoint`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if o.workers < 1 || o.workers > 1024 {
				return command.Usagef("--workers %d: want 1 to 1024", o.workers)
			}
			if o.every <= 0 {
				return command.Usagef("--every %v: want a positive time", o.every)
			}
			o.path = args[0]
			f, err := read(args[0], set)
			if err != nil {
				return err
			}
			experiments, err := f.Experiments()
			if err != nil {
				return err
			}
			if len(experiments) > 1 && o.checkpoint+o.restart != "" {
				return command.Usagef("the configuration stands for %d simulations: "+
					"--checkpoint and --restart are for one", len(experiments))
			}
			shown := page{name: filepath.Base(args[0]), set: set}
			for _, choices := range experiments {
				one := f.Clone()
				for _, c := range choices {
					one.Set(c.Key, c.Value)
				}
				if len(choices) > 0 {
					fmt.Fprintf(cmd.OutOrStdout(), "# %s\n", describe(choices))
				}
				if err := run(cmd, one, o, shown.add(describe(choices))); err != nil {
					return err
				}
			}
			if o.page == "" {
				return nil
			}
			return command.Draw(o.page, shown.write)
		},
	}
	f := cmd.Flags()
	f.IntVar(&o.workers, "workers", runtime.GOMAXPROCS(0), "how many cores work on the simulation")
	f.StringArrayVar(&set, "set", nil, "set a key of the configuration, as in SIZE=1000; "+
		"may be repeated")
	f.BoolVar(&o.digest, "digest", false,
		"also print a checksum of all nodes and events at the end")
	f.StringVar(&o.checkpoint, "checkpoint", "", "save the state in this file")
	f.DurationVar(&o.every, "every", time.Minute, "simulated time between two checkpoints")
	f.StringVar(&o.page, "page", "",
		"write a page (HTML) that shows what observers report, over time")
	f.StringVar(&o.restart, "restart", "", "go on from this checkpoint")
	return cmd
}

// read reads a configuration and sets keys.
func read(path string, set []string) (*config.File, error) {
	file, err := plainfile.Open(path)
	if err != nil {
		return nil, fmt.Errorf("read configuration: %w", err)
	}
	defer file.Close()
	f, err := config.Parse(path, file)
	if err != nil {
		return nil, err
	}
	for _, s := range set {
		key, value, ok := strings.Cut(s, "=")
		if !ok || key == "" {
			return nil, command.Usagef("--set %q: want a key, = and a value", s)
		}
		f.Set(key, value)
	}
	return f, nil
}

// Check returns an error if a configuration cannot be simulated. A configuration with ranges of
// values stands for several simulations. Check checks each of them.
func Check(_ context.Context, path string) error {
	f, err := read(path, nil)
	if err != nil {
		return err
	}
	experiments, err := f.Experiments()
	if err != nil {
		return err
	}
	for _, choices := range experiments {
		one := f.Clone()
		for _, c := range choices {
			one.Set(c.Key, c.Value)
		}
		one.Names("range")
		s, err := library.Build(one, library.Options{Workers: 1, Out: io.Discard,
			Dir: filepath.Dir(path), Classes: server.Classes()})
		if err != nil {
			return err
		}
		if err := s.Close(); err != nil {
			return err
		}
	}
	return nil
}

func describe(choices []config.Choice) string {
	var all []string
	for _, c := range choices {
		all = append(all, c.Key+"="+c.Value)
	}
	return strings.Join(all, " ")
}

// options are the flags that say how to run a simulation.
type options struct {
	path                string // path of the configuration
	workers             int
	digest              bool
	checkpoint, restart string
	every               time.Duration
	page                string
}

// run runs one simulation.
func run(cmd *cobra.Command, f *config.File, o options, shown *section) error {
	f.Names("range")
	s, err := library.Build(f, library.Options{Workers: o.workers, Out: cmd.OutOrStdout(),
		Note: shown.note, Answer: shown.answer,
		Dir: filepath.Dir(o.path), Classes: server.Classes()})
	if err != nil {
		return fmt.Errorf("the configuration is not understood:\n%w", err)
	}
	defer s.Close()
	if s.Cycles > 0 && o.checkpoint+o.restart != "" {
		return command.Usagef("--checkpoint and --restart need the event engine: " +
			"use simulation.endtime")
	}
	defer debug.SetGCPercent(debug.SetGCPercent(garbage_percent))
	began := time.Now()
	saved, err := simulate(cmd.Context(), s, f.Sum(), o)
	if err != nil {
		return err
	}
	if o.checkpoint != "" && saved == 0 {
		fmt.Fprintf(cmd.ErrOrStderr(), "no checkpoint was saved: the simulation ended before "+
			"--every %v\n", o.every)
	}
	took := time.Since(began)
	shown.byCycles = s.Cycles > 0
	for _, a := range shown.answers {
		fmt.Fprintln(cmd.OutOrStdout(), a.sentence)
	}
	n := s.World.Counts()
	fmt.Fprintf(cmd.ErrOrStderr(), "%d nodes at the end, %d events in %v, %.3g events a second\n",
		s.World.Size(), n.Events, took.Round(time.Millisecond), float64(n.Events)/took.Seconds())
	if o.digest {
		sum, err := s.World.Digest()
		if err != nil {
			return err
		}
		fmt.Fprintf(cmd.OutOrStdout(), "# digest %x\n", sum)
	}
	return nil
}

// simulate runs a simulation from its beginning or from a checkpoint. It returns how many
// checkpoints it saved.
func simulate(
	ctx context.Context, s *library.Simulation, id [32]byte, o options,
) (saved int, err error) {
	if o.checkpoint != "" { // an hour later, the error would be more expensive
		if _, err := os.Stat(filepath.Dir(o.checkpoint)); err != nil {
			return 0, fmt.Errorf("save checkpoints in %q: %w", o.checkpoint, err)
		}
	}
	if o.restart != "" {
		file, err := plainfile.Open(o.restart)
		if err != nil {
			return 0, fmt.Errorf("restart: %w", err)
		}
		defer file.Close()
		if err := s.World.Restore(id, file); err != nil {
			return 0, fmt.Errorf("restart from %q: %w", o.restart, err)
		}
	} else if err := s.Start(); err != nil {
		return 0, err
	}
	defer letGarbageGrow()()
	if o.checkpoint == "" {
		return 0, s.RunStarted(ctx)
	}
	err = s.World.RunEach(ctx, sim.Time(o.every), func() error {
		saved++
		return s.World.SaveCheckpoint(o.checkpoint, id)
	})
	return saved, err
}
