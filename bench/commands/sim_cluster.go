package commands

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/cloudprofiler/cloudprofiler/internal/command"
	"github.com/cloudprofiler/cloudprofiler/internal/plainfile"
	"github.com/cloudprofiler/cloudprofiler/internal/reexec"
	"github.com/cloudprofiler/cloudprofiler/sim"
	"github.com/cloudprofiler/cloudprofiler/sim/cluster"
	"github.com/cloudprofiler/cloudprofiler/sim/config"
	"github.com/cloudprofiler/cloudprofiler/sim/server"
)

// clusterProcess is the hidden command that runs a part of a simulation.
const clusterProcess = "cluster-process"

// maxConfiguration is the size of the largest configuration, in bytes.
const maxConfiguration = 1 << 20

func newBenchCluster() *cobra.Command {
	o := cluster.Options{}
	var set []string
	var every time.Duration
	cmd := &cobra.Command{
		Use:   "cluster CONFIGURATION",
		Short: "Run one simulation in several processes, which NATS connects",
		Long: `Run one simulation in several processes, which NATS connects.

The result is that of "cprof sim", bit by bit. If a process dies, the simulation goes on from its
last checkpoint. Without --server, a server is started for this simulation. Simulations on one
server run one after the other.`,
		Example: `  cp-bench cluster average.conf --processes 4
  cp-bench cluster average.conf --processes 2 --every 10s --balance`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if o.Processes < 1 || o.Processes > 64 {
				return command.Usagef("--processes %d: want 1 to 64", o.Processes)
			}
			if every < 0 {
				return command.Usagef("--every %v: want a positive time", every)
			}
			if o.Keep = o.Simulation != ""; o.Keep && o.URL == "" {
				return command.Usagef("--name %s: it needs --server: the server that the command "+
					"starts keeps nothing", o.Simulation)
			}
			text, err := plainfile.Read(args[0], maxConfiguration)
			if err != nil {
				return fmt.Errorf("read configuration: %w", err)
			}
			o.Configuration, o.Every = string(text), sim.Time(every)
			for _, s := range set {
				key, value, ok := strings.Cut(s, "=")
				if !ok || key == "" {
					return command.Usagef("--set %q: want a key, = and a value", s)
				}
				o.Set = append(o.Set, config.Choice{Key: key, Value: value})
			}
			if o.URL == "" {
				dir, err := os.MkdirTemp("", "cp-bench-cluster-")
				if err != nil {
					return err
				}
				defer os.RemoveAll(dir)
				server, err := cluster.Serve(dir)
				if err != nil {
					return err
				}
				defer func() {
					server.Shutdown()
					server.WaitForShutdown()
				}()
				o.URL = server.ClientURL()
			}
			if !o.Keep {
				o.Simulation = fmt.Sprintf("s%d-%d", os.Getpid(), time.Now().UnixNano())
			}
			o.Command = func(part string) (*exec.Cmd, error) {
				c, err := reexec.Command(clusterProcess, part)
				if err == nil {
					c.Stderr = cmd.ErrOrStderr()
				}
				return c, err
			}
			began := time.Now()
			r, err := cluster.Run(cmd.Context(), o)
			if err != nil {
				return err
			}
			took := time.Since(began)
			fmt.Fprint(cmd.OutOrStdout(), r.Out)
			fmt.Fprintf(cmd.OutOrStdout(), "# digest %s\n", r.Digest)
			fmt.Fprintf(cmd.ErrOrStderr(), "%d nodes at the end, %d events in %v, %.3g events a "+
				"second, %d restarts, %d shards moved\n", r.Size, r.Counts.Events,
				took.Round(time.Millisecond), float64(r.Counts.Events)/took.Seconds(), r.Restarts,
				r.Moved)
			return nil
		},
	}
	f := cmd.Flags()
	f.IntVar(&o.Processes, "processes", 2, "how many processes share the nodes")
	f.StringVar(&o.URL, "server", "", "URL of a NATS server with JetStream (default: start one)")
	f.StringVar(&o.Simulation, "name", "", "name of the simulation, of letters, digits and "+
		"hyphens: if it fails, the next one of this name goes on from its last checkpoint")
	f.DurationVar(&every, "every", 0, "simulated time between two checkpoints; 0: none")
	f.BoolVar(&o.Balance, "balance", false, "at checkpoints, move shards from busy processes")
	f.IntVar(&o.Restarts, "restarts", 3, "how often processes may die")
	f.StringArrayVar(&set, "set", nil, "set a key of the configuration, as in SIZE=1000; "+
		"may be repeated")
	return cmd
}

func newBenchClusterProcess() *cobra.Command {
	return &cobra.Command{
		Use:    clusterProcess + " PART",
		Short:  "Run a part of the simulation of \"cp-bench cluster\"",
		Hidden: true,
		Args:   cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			var p cluster.Part
			if err := json.Unmarshal([]byte(args[0]), &p); err != nil {
				return command.Usagef("part %q: %v", args[0], err)
			}
			return cluster.Work(cmd.Context(), p, server.Classes())
		},
	}
}
