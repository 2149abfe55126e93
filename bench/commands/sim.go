package commands

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os/exec"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/cloudprofiler/cloudprofiler/bench/simulate"
	"github.com/cloudprofiler/cloudprofiler/internal/command"
	"github.com/cloudprofiler/cloudprofiler/internal/proof"
	"github.com/cloudprofiler/cloudprofiler/internal/reexec"
	"github.com/cloudprofiler/cloudprofiler/sim"
)

// simRun is the hidden command that runs one simulation in a process of its own, so that the memory
// and CPU time of the process are those of the simulation.
const simRun = "sim-run"

func newBenchSimRun() *cobra.Command {
	return &cobra.Command{
		Use:    simRun + " ORDER",
		Short:  "Run one simulation of \"cp-bench sim\"",
		Hidden: true,
		Args:   cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			var o simulate.Order
			if err := json.Unmarshal([]byte(args[0]), &o); err != nil {
				return command.Usagef("order %q: %v", args[0], err)
			}
			r, err := simulate.Run(cmd.Context(), o)
			if err != nil {
				return err
			}
			return json.NewEncoder(cmd.OutOrStdout()).Encode(r)
		},
	}
}

// runSimulated runs one simulation in a process of its own.
func runSimulated(ctx context.Context, o simulate.Order) (r simulate.Result, err error) {
	order, err := json.Marshal(o)
	if err != nil {
		return r, err
	}
	argv, err := reexec.Argv(simRun, string(order))
	if err != nil {
		return r, err
	}
	out, errs := bytes.Buffer{}, bytes.Buffer{}
	c := exec.CommandContext(ctx, argv[0], argv[1:]...)
	c.Stdout, c.Stderr = &out, &errs
	if err := c.Run(); err != nil {
		return r, fmt.Errorf("simulate %s: %w\n%s", o.Configuration, err, errs.String())
	}
	return r, json.Unmarshal(out.Bytes(), &r)
}

// simRow is what "cp-bench sim --json" prints for each simulation. Scripts read it: append only.
type simRow struct {
	Experiment   string    `json:"experiment"`
	Nodes        int       `json:"nodes"`
	Workers      int       `json:"workers"`
	Degree       int       `json:"degree,omitempty"`
	Observed     bool      `json:"observed"`
	Events       uint64    `json:"events"`
	CPUPerSecond float64   `json:"events_a_cpu_second"`
	PerSecond    float64   `json:"events_a_second"`
	LocalShare   float64   `json:"local_share"`
	BytesPerNode float64   `json:"bytes_a_node"`
	Variance     []float64 `json:"variance,omitempty"`
	Drift        float64   `json:"mean_drift"`
	Digest       string    `json:"digest,omitempty"`
	LocalDelay   float64   `json:"local_delay_ns,omitempty"`
	RemoteDelay  float64   `json:"remote_delay_ns,omitempty"`
}

// simSizes has the sizes of the experiments.
type simSizes struct {
	speed, memory int // numbers of nodes
	cycles        int // number of cycles of the speed experiment
	sweep         []int
	shards        int // number of shards of E2 and E3, which 1 to 4 workers share equally
}

func newBenchSim() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "sim",
		Short: "Repeat the experiments of DIPS, and measure the simulator's speed and memory",
		Long: `Repeat the experiments of DIPS with the simulator, and measure its speed and memory.
DIPS is another simulator (Fernandes, 2011).

  E1  how fast an average converges: 1, 2 and 4 workers must give equal results
  E2  which share of the messages goes to nodes of the same worker
  E3  the simulated delays of these messages and of messages to other workers, which must be equal
  E4  how the events a second depend on the number of nodes
  E5  how the events a second depend on the number of workers, with an observer
  E6  how much memory a node takes

Rates are events in a second of CPU time, so other programs on the machine disturb them less.`,
		Example: `  cp-bench sim
  cp-bench sim --json`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			size, err := proof.Wanted()
			if err != nil {
				return err
			}
			sizes := simSizes{speed: 50_000, memory: 100_000, cycles: 2, shards: 24}
			if size == proof.Full {
				sizes = simSizes{speed: 1_000_000, memory: 10_000_000, cycles: 10, shards: 120,
					sweep: []int{40_000, 80_000, 160_000, 250_000, 500_000, 1_500_000, 2_000_000}}
			}
			p := command.NewProgress(cmd.ErrOrStderr())
			b := simBench{ctx: cmd.Context(), show: func(s string) { p.Show("%s", s) }}
			err = b.all(sizes)
			p.Done()
			if err != nil {
				return err
			}
			return answer(b.bars, func() error { return printSim(cmd, b, asJSON) })
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print one JSON object for each simulation")
	return cmd
}

// simBench collects rows and bars.
type simBench struct {
	ctx  context.Context
	show func(string)
	rows []simRow
	bars []proof.Bar
}

// run runs one simulation, adds a row for it, and returns this row.
func (b *simBench) run(experiment, configuration string, nodes, workers int,
	set map[string]string) (*simRow, simulate.Result, error) {
	b.show(fmt.Sprintf("%s: %d nodes, %d workers", experiment, nodes, workers))
	all := map[string]string{"SIZE": strconv.Itoa(nodes), "random.seed": "1", "EVERY": "1000*CYCLE"}
	for k, v := range set {
		all[k] = v
	}
	r, err := runSimulated(b.ctx, simulate.Order{Configuration: configuration, Set: all,
		Workers: workers})
	if err != nil {
		return nil, r, err
	}
	b.rows = append(b.rows, simRow{Experiment: experiment, Nodes: nodes, Workers: workers,
		Events: r.Events, CPUPerSecond: r.Rate(), Digest: r.Digest,
		PerSecond:    float64(r.Events) / (float64(r.Wall_ns) / 1e9),
		LocalShare:   float64(r.Local) / max(float64(r.Local+r.Remote), 1),
		BytesPerNode: float64(r.Peak-r.Base) / float64(nodes)})
	return &b.rows[len(b.rows)-1], r, nil
}

func (b *simBench) all(sizes simSizes) error {
	for _, experiment := range []func(simSizes) error{b.e1, b.e2, b.e3, b.e4, b.e5, b.e6} {
		if err := experiment(sizes); err != nil {
			return err
		}
	}
	return nil
}

// e1Bands are the ranges in which the variance of the nodes' values must be. The key is the number
// of cycles after which the variance is computed. In each cycle, each node begins one exchange,
// which takes two messages. One end of a range is the variance if each exchange of two nodes is
// atomic. The other end is the variance if messages wait in a queue.
var e1Bands = map[int][2]float64{1: {244, 317}, 5: {2.1, 6.1}, 10: {6.0e-3, 4.5e-2},
	15: {1.6e-5, 3.2e-4}}

func (b *simBench) e1(simSizes) error {
	const nodes = 10_000
	outside, different, first, start := 0, 0, "", 0.0
	for _, workers := range []int{1, 2, 4} {
		row, r, err := b.run("E1", simulate.Average, nodes, workers, map[string]string{
			"CYCLES": "16", "EVERY": "CYCLE", "MIN": "CYCLE/100", "MAX": "CYCLE/10"})
		if err != nil {
			return err
		}
		mean, err := r.Column(4)
		if err != nil {
			return err
		}
		if row.Variance, err = r.Column(5); err != nil {
			return err
		}
		for i := range row.Variance { // PeerSim prints the variance of a sample
			row.Variance[i] *= float64(nodes-1) / nodes
		}
		start = row.Variance[0]
		for cycle, band := range e1Bands {
			if v := row.Variance[cycle]; v < band[0] || v > band[1] {
				outside++
			}
		}
		row.Drift, row.Observed = mean[len(mean)-1]-mean[0], true
		if first == "" {
			first = r.Digest + r.Observed
		}
		if r.Digest+r.Observed != first {
			different++
		}
	}
	b.bars = append(b.bars,
		proof.Bar{Name: "E1: variance at the start, beside 833.5", Unit: "",
			Figure: max(start-833.5, 833.5-start), Limit: 0.01},
		proof.Bar{Name: "E1: variances outside of the band", Unit: "variances",
			Figure: float64(outside)},
		proof.Bar{Name: "E1: results of 2 and 4 workers that differ", Unit: "results",
			Figure: float64(different)})
	return nil
}

func (b *simBench) e2(sizes simSizes) error {
	worst := 0.0
	err := b.infect("E2", sizes, []int{1, 2, 3, 4}, func(row *simRow, _ simulate.Result) {
		d := row.LocalShare - 1/float64(row.Workers)
		worst = max(worst, d, -d)
	})
	if err != nil {
		return err
	}
	b.bars = append(b.bars, proof.Bar{Name: "E2: local share beside 1/K, largest difference",
		Unit: "%", Figure: 100 * worst, Limit: 0.5})
	return nil
}

// infect runs the experiments E2 and E3, in which an infection spreads, for all degrees and numbers
// of workers.
func (b *simBench) infect(experiment string, sizes simSizes, all []int,
	each func(*simRow, simulate.Result)) error {
	for _, degree := range []int{1, 3} {
		for _, workers := range all {
			row, r, err := b.run(experiment, simulate.Infection, sizes.shards*sim.ShardNodes,
				workers, map[string]string{"CYCLES": "5", "DEGREE": strconv.Itoa(degree),
					"LIMIT": "2", "SEEDS": strconv.Itoa(sizes.shards * 400)})
			if err != nil {
				return err
			}
			row.Degree = degree
			each(row, r)
		}
	}
	return nil
}

// e3 compares the delays of messages within a worker with the delays of messages between workers.
// In DIPS (another simulator), messages between workers take longer, because they wait in bundles.
// Here, only the simulated transport says how long a message takes.
func (b *simBench) e3(sizes simSizes) error {
	worst := 0.0
	err := b.infect("E3", sizes, []int{2, 3, 4, 8}, func(row *simRow, r simulate.Result) {
		row.LocalDelay, row.RemoteDelay = r.LocalDelay_ns, r.RemoteDelay_ns
		d := (r.RemoteDelay_ns - r.LocalDelay_ns) / r.LocalDelay_ns
		worst = max(worst, d, -d)
	})
	if err != nil {
		return err
	}
	b.bars = append(b.bars, proof.Bar{Name: "E3: delay between workers beside that within one, " +
		"largest difference", Unit: "%", Figure: 100 * worst, Limit: 5})
	return nil
}

func (b *simBench) e4(sizes simSizes) error {
	set := map[string]string{"CYCLES": strconv.Itoa(sizes.cycles)}
	for _, nodes := range sizes.sweep {
		if _, _, err := b.run("E4", simulate.Average, nodes, 1, set); err != nil {
			return err
		}
	}
	var rates []float64
	for range 3 {
		row, _, err := b.run("E4", simulate.Average, sizes.speed, 1, set)
		if err != nil {
			return err
		}
		rates = append(rates, row.CPUPerSecond)
	}
	name := fmt.Sprintf("average of %d nodes, one core", sizes.speed)
	b.bars = append(b.bars, proof.Bar{Name: name, Unit: "events/s of CPU", Limit: 3e6,
		AtLeast: true, Timing: true}.From(rates))
	return nil
}

func (b *simBench) e5(sizes simSizes) error {
	for _, observed := range []bool{false, true} {
		for _, workers := range []int{1, 2, 4} {
			set := map[string]string{"CYCLES": "5", "DEGREE": "3", "LIMIT": "2", "SEEDS": "5000"}
			if observed {
				set["EVERY"] = "CYCLE/10" // this is equally often for any number of workers
			}
			row, _, err := b.run("E5", simulate.Infection, sizes.speed, workers, set)
			if err != nil {
				return err
			}
			row.Degree, row.Observed = 3, observed
		}
	}
	return nil
}

func (b *simBench) e6(sizes simSizes) error {
	for _, workers := range []int{1, 2} {
		if _, _, err := b.run("E6", simulate.Average, sizes.memory/10, workers,
			map[string]string{"CYCLES": "2"}); err != nil {
			return err
		}
	}
	row, _, err := b.run("E6", simulate.Average, sizes.memory, 2, map[string]string{"CYCLES": "2"})
	if err != nil {
		return err
	}
	b.bars = append(b.bars, proof.Bar{Name: fmt.Sprintf("memory, average of %d nodes with 20 links",
		sizes.memory), Unit: "bytes a node", Figure: row.BytesPerNode, Limit: 250, Timing: true})
	return nil
}

func printSim(cmd *cobra.Command, b simBench, asJSON bool) error {
	out := cmd.OutOrStdout()
	if asJSON {
		for _, row := range b.rows {
			if err := json.NewEncoder(out).Encode(row); err != nil {
				return err
			}
		}
		return nil
	}
	fmt.Fprintln(out, thisMachine())
	fmt.Fprintf(out, "%-10s %9s %7s %6s %8s %10s %10s %10s %7s %7s\n", "experiment", "nodes",
		"workers", "degree", "observed", "events", "/s of CPU", "/s", "local", "B/node")
	for _, r := range b.rows {
		fmt.Fprintf(out, "%-10s %9d %7d %6d %8t %10d %10.3g %10.3g %6.2f%% %7.0f\n", r.Experiment,
			r.Nodes, r.Workers, r.Degree, r.Observed, r.Events, r.CPUPerSecond, r.PerSecond,
			100*r.LocalShare, r.BytesPerNode)
	}
	fmt.Fprintln(out)
	for _, bar := range b.bars {
		fmt.Fprintln(out, bar)
	}
	return nil
}
