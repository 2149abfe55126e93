package sim

import (
	"context"
	"fmt"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/cloudprofiler/cloudprofiler/internal/command"
	"github.com/cloudprofiler/cloudprofiler/internal/plainfile"
	"github.com/cloudprofiler/cloudprofiler/sim/config"
	"github.com/cloudprofiler/cloudprofiler/sim/library"
)

func newSim() *cobra.Command {
	var workers int
	var set []string
	var digest bool
	cmd := &cobra.Command{
		Use:   "sim CONFIGURATION",
		Short: "Simulate a network of up to millions of nodes, from a configuration of PeerSim",
		Long: `Simulate a network of up to millions of nodes, from a configuration of PeerSim.

The observers of the configuration print to standard output. A key with a range stands for several
simulations, which run one after the other. Any number of workers gives the same result, bit by bit.
docs/sim.md lists the classes and explains how the simulator differs from PeerSim.`,
		Example: `  cprof sim average.conf
  cprof sim average.conf --set network.size=1000000 --workers 4`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if workers < 1 || workers > 1024 {
				return command.Usagef("--workers %d: want 1 to 1024", workers)
			}
			f, err := read(args[0], set)
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
				if len(choices) > 0 {
					fmt.Fprintf(cmd.OutOrStdout(), "# %s\n", describe(choices))
				}
				if err := run(cmd.Context(), cmd, one, args[0], workers, digest); err != nil {
					return err
				}
			}
			return nil
		},
	}
	f := cmd.Flags()
	f.IntVar(&workers, "workers", runtime.GOMAXPROCS(0), "how many cores work on the simulation")
	f.StringArrayVar(&set, "set", nil, "set a key of the configuration, as in SIZE=1000; "+
		"may be repeated")
	f.BoolVar(&digest, "digest", false, "also print a checksum of all nodes and events at the end")
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

func describe(choices []config.Choice) string {
	var all []string
	for _, c := range choices {
		all = append(all, c.Key+"="+c.Value)
	}
	return strings.Join(all, " ")
}

// run runs one simulation.
func run(ctx context.Context, cmd *cobra.Command, f *config.File, path string, workers int,
	digest bool) error {
	f.Names("range")
	s, err := library.Build(f, library.Options{Workers: workers, Out: cmd.OutOrStdout(),
		Dir: filepath.Dir(path)})
	if err != nil {
		return fmt.Errorf("the configuration is not understood:\n%w", err)
	}
	began := time.Now()
	if err := s.Run(ctx); err != nil {
		return err
	}
	took := time.Since(began)
	n := s.World.Counts()
	fmt.Fprintf(cmd.ErrOrStderr(), "%d nodes at the end, %d events in %v, %.3g events a second\n",
		s.World.Size(), n.Events, took.Round(time.Millisecond), float64(n.Events)/took.Seconds())
	if digest {
		sum, err := s.World.Digest()
		if err != nil {
			return err
		}
		fmt.Fprintf(cmd.OutOrStdout(), "# digest %x\n", sum)
	}
	return nil
}
