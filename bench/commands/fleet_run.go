package commands

import (
	"context"
	"os/exec"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/cloudprofiler/cloudprofiler/bench/fleet"
	"github.com/cloudprofiler/cloudprofiler/internal/command"
	"github.com/cloudprofiler/cloudprofiler/internal/proof"
	"github.com/cloudprofiler/cloudprofiler/internal/reexec"
)

// fleetFlags are the flags of "cp-bench fleet".
type fleetFlags struct {
	fleet.Options
	serve                  time.Duration
	hostile                int
	killed                 float64
	onlyServer, onlyTables bool
	tables                 int
	slower                 int
	asJSON                 bool
}

func (o *fleetFlags) add(cmd *cobra.Command) {
	f := cmd.Flags()
	f.IntVar(&o.Nodes, "nodes", 1000, "nodes of the fleet")
	f.IntVar(&o.Degree, "degree", 7, "neighbours that each node measures")
	f.IntVar(&o.Talks, "talks", 1, "others to which the tuples of each node travel")
	f.Float64Var(&o.Trains, "trains", 2, "simulations: trains that each node begins in a second")
	f.DurationVar(&o.Measure, "measure", 30*time.Second, "how long the nodes measure")
	f.Float64Var(&o.Churn, "churn", 0.01, "share of the nodes that die each minute")
	f.Float64Var(&o.Liars, "liars", 0.05,
		"hostile simulation: share of the nodes that report false stamps")
	f.DurationVar(&o.Cut, "cut", 10*time.Second,
		"hostile simulation: how long two halves of the fleet cannot reach each other")
	f.IntVar(&o.hostile, "hostile", 100_000,
		"hostile simulation: random pairs to ask for; 0: no such simulation")
	f.Float64Var(&o.killed, "killed", 0.5,
		"third simulation: share of the nodes that die at once; 0: no such simulation")
	f.Float64Var(&o.Loss, "loss", 0.01, "share of messages and exchanges that are lost")
	f.IntVar(&o.Pairs, "pairs", 2000, "random pairs to ask for")
	f.IntVar(&o.Queries, "queries", 100, "moments at which each pair is asked for")
	f.Uint64Var(&o.Seed, "seed", 1, "seed of the simulation")
	f.DurationVar(&o.serve, "serve", time.Minute,
		"how long a real server of the fleet is watched, in each of two states; 0: not at all")
	f.IntVar(&o.tables, "tables", 10_000,
		"largest graph for the experiments of KELP's thesis; 0: no such experiments")
	f.BoolVar(&o.onlyTables, "only-tables", false, "only repeat the experiments of KELP's thesis")
	f.BoolVar(&o.onlyServer, "only-server", false, "only watch a server; simulate nothing")
	f.IntVar(&o.slower, "slower", 1, "how many times as slowly time passes for the watched server")
	f.BoolVar(&o.asJSON, "json", false, "print one JSON object")
}

// fit chooses values for the options that the user did not set. These values depend on the size of
// the proof. The method also returns the options for repeating the experiments of KELP's thesis.
func (o *fleetFlags) fit(size proof.Size, given func(flag string) bool) fleet.KelpOptions {
	small := func(flag string) bool { return size != proof.Full && !given(flag) }
	if small("nodes") {
		o.Nodes, o.Pairs = smallFleet, 200
	}
	if small("hostile") {
		o.hostile = smallHostile
	}
	if small("serve") {
		o.serve = smallServe
	}
	kelp := fleet.KelpOptions{Nodes: o.tables, Searches: 10_000, Periods: 12_000, Seed: o.Seed}
	if size != proof.Full {
		kelp.Searches, kelp.Periods = smallSearches, smallPeriods
	}
	if small("tables") {
		kelp.Nodes = smallTables
	}
	return kelp
}

// check refuses values that are not possible.
func (o *fleetFlags) check(kelpNodes int) error {
	switch {
	case kelpNodes < 0 || kelpNodes > 100_000:
		return command.Usagef("--tables %d: want 0 to 100000", o.tables)
	case o.onlyTables && (o.onlyServer || kelpNodes == 0):
		return command.Usagef("--only-tables with --only-server or --tables 0: nothing " +
			"is left to do")
	case o.Nodes < minFleet || o.Nodes > maxFleet:
		return command.Usagef("--nodes %d: want %d to %d", o.Nodes, minFleet, maxFleet)
	case o.Degree < 2 || o.Degree >= o.Nodes/2 || o.Degree > 32:
		return command.Usagef("--degree %d: want 2 to 32, and less than half of the nodes",
			o.Degree)
	case !(o.Trains >= 0.1 && o.Trains <= 100):
		return command.Usagef("--trains %g: want 0.1 to 100 trains a second", o.Trains)
	case o.Measure < 15*time.Second || o.Measure > time.Hour:
		return command.Usagef("--measure %v: want 15s to 1h", o.Measure)
	case o.Cut < 0 || o.Cut > o.Measure/2:
		return command.Usagef("--cut %v: want at most half of --measure %v", o.Cut, o.Measure)
	case !(o.killed >= 0 && o.killed < 1):
		return command.Usagef("--killed %v: want a share of less than 1", o.killed)
	case o.slower < 1 || o.slower > 100:
		return command.Usagef("--slower %d: want 1 to 100", o.slower)
	case o.onlyServer && o.serve == 0:
		return command.Usagef("--only-server with --serve 0: nothing is left to do")
	case o.hostile < 0:
		return command.Usagef("--hostile %d: want 0 or more", o.hostile)
	case o.Pairs < 1 || o.Queries < 1 || o.Talks < 0 || o.Talks > 8:
		return command.Usagef("--pairs %d, --queries %d, --talks %d: want at least 1 pair "+
			"and query, and 0 to 8 talks", o.Pairs, o.Queries, o.Talks)
	}
	for name, share := range map[string]float64{"churn": o.Churn, "liars": o.Liars,
		"loss": o.Loss} {
		if !(share >= 0 && share < 0.5) {
			return command.Usagef("--%s %v: want a share of less than 0.5", name, share)
		}
	}
	return nil
}

// fleetResults are the results of the parts of "cp-bench fleet". A part that did not run has the
// zero value.
type fleetResults struct {
	plain, hostile, killed fleet.Result
	cells                  []fleet.KelpCell
	served                 fleet.ServerResult
}

// run runs the parts that the flags choose, one after another.
func (o *fleetFlags) run(ctx context.Context, kelp fleet.KelpOptions) (r fleetResults, err error) {
	plain := o.Options
	plain.Liars, plain.Cut = 0, 0
	if o.onlyTables {
		o.serve = 0
	}
	if o.onlyServer || o.onlyTables {
		o.killed, o.hostile = 0, 0
	} else {
		r.plain, err = fleet.Run(ctx, plain)
	}
	if err == nil && o.killed > 0 {
		plain.Killed = o.killed
		r.killed, err = fleet.Run(ctx, plain)
	}
	if err == nil && o.hostile > 0 {
		o.Pairs = o.hostile
		r.hostile, err = fleet.Run(ctx, o.Options)
	}
	if err == nil && kelp.Nodes > 0 && !o.onlyServer {
		r.cells, err = fleet.Kelp(ctx, kelp)
	}
	if err == nil && o.serve > 0 && o.Nodes <= fleet.MaxServed {
		r.served, err = fleet.Watch(ctx, fleet.ServerOptions{
			Nodes: o.Nodes, Degree: o.Degree, For: o.serve, Joins: fleetJoins, Seed: o.Seed,
			Slower:   o.slower,
			Command:  func() (*exec.Cmd, error) { return reexec.Command(fleetServer) },
			Progress: o.Progress,
		})
	}
	return r, err
}

func (o *fleetFlags) bars(r *fleetResults) []proof.Bar {
	return slices.Concat(barsOfFleet(o.Options, r.plain), barsOfKilled(o.killed, r.killed),
		barsOfHostile(o.Options, r.hostile), barsOfTables(r.cells),
		barsOfServer(o.Nodes, r.served))
}
