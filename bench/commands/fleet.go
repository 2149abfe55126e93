package commands

import (
	"encoding/json"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/cloudprofiler/cloudprofiler/bench/fleet"
	"github.com/cloudprofiler/cloudprofiler/internal/command"
	"github.com/cloudprofiler/cloudprofiler/internal/proof"
)

// These are the limits for a large fleet. A limit of a bound is a multiple of the median bound
// between neighbours.
const (
	randomLimit     = 3.0 // of a random pair, up to manyNodes nodes
	randomLimitMany = 4.0 // of a random pair in a larger fleet
	manyNodes       = 1000
	talkLimit       = 1.1 // of a pair between which tuples travel
	smallFleet      = 120 // the default of --nodes, unless the proof is full
	smallHostile    = 1000
	minFleet        = 16

	// These are the limits for the server: the first two for a fleet of up to manyNodes nodes, and
	// the two whose names end in Many for a larger fleet.
	serverCores         = 0.5
	serverMegabytes     = 500
	serverCoresMany     = 2.0
	serverMegabytesMany = 4000
	joinSeconds         = 1

	pairMilliseconds = 1

	smallServe       = 5 * time.Second // the default of --serve, unless the proof is full
	fleetJoins       = 5               // nodes that join while a run is open
	sizeLimit        = 1.1             // of a node's cost, against that in small fleets
	healSeconds      = 60              // until the graph is regular again after many nodes died
	maxFleet         = 20_000
	leastFleetSample = 1000 // with fewer answers, there is no figure
)

func newBenchFleet() *cobra.Command {
	var o fleetFlags
	cmd := &cobra.Command{
		Use:   "fleet",
		Short: "Check the bounds of a large fleet, and what it costs each node",
		Long: `Check the bounds of a large fleet, and what it costs each node.

The fleet's network and oscillators are simulated in one process. Everything else is the code of the
product: nodes maintain their graph and measure their neighbours, and third nodes relate random
pairs. Each bound is compared with the truth. Meanwhile nodes die and join, and some messages are
lost.

A second simulation is hostile: some nodes report false stamps (--liars), and for some time one half
of the fleet cannot reach the other (--cut). The command asks for bounds between other nodes
(--hostile) at random moments, even just before a node dies. This shows only whether bounds are
true.

In a third simulation many nodes die at once (--killed). It shows how long it takes until the others
have all their neighbours again, and whether bounds are true.

The design of the graph comes from a thesis about overlay networks (KELP). Then the command repeats
the experiments of the thesis: how evenly walks end, how far hints spread, how long searches are,
and in which order a queue gives its items. It compares each figure with a model, and names the
figures of the thesis that are not near the model. --tables is the size of the largest graph for
these experiments. With --only-tables, the command does nothing else.

Then a real server in a process of its own serves as many nodes in real time, over connections with
keys. The command watches it for the time --serve without a run, and for the same time in a run.
--only-server leaves out the simulations. If the machine is too slow for the server and all nodes,
--slower N makes the fleet's time pass N times as slowly. The printed number of cores is the number
that the server would need in real time.`,
		Example: `  cp-bench fleet --nodes 1000 --json
  cp-bench fleet --nodes 10000 --measure 20s
  cp-bench fleet --nodes 200 --liars 0.1 --serve 0
  cp-bench fleet --nodes 10000 --only-server --slower 4 --json
  cp-bench fleet --only-tables --tables 10000`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			size, err := proof.Wanted()
			if err != nil {
				return err
			}
			kelp := o.fit(size, cmd.Flags().Changed)
			if err := o.check(kelp.Nodes); err != nil {
				return err
			}
			p := command.NewProgress(cmd.ErrOrStderr())
			o.Progress = func(step string) { p.Show("%s", step) }
			kelp.Progress = o.Progress
			r, err := o.run(cmd.Context(), kelp)
			p.Done()
			if err != nil {
				return err
			}
			return answer(o.bars(&r), func() error {
				return printFleet(cmd, r.plain, r.hostile, r.killed, r.cells, r.served, o.asJSON)
			})
		},
	}
	o.add(cmd)
	return cmd
}

// fleetServer is the hidden command that runs the server of a fleet.
const fleetServer = "fleet-server"

func newBenchFleetServer() *cobra.Command {
	return &cobra.Command{
		Use:    fleetServer,
		Short:  "Be the server of \"cp-bench fleet\"",
		Hidden: true,
		Args:   cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return fleet.Serve(cmd.Context(), cmd.InOrStdin(), cmd.OutOrStdout())
		},
	}
}

// barsOfServer returns the bars of the server that a fleet used, if there was one.
func barsOfServer(nodes int, r fleet.ServerResult) []proof.Bar {
	if r.Trains == 0 {
		return nil
	}
	cores, megabytes := serverCores, float64(serverMegabytes)
	if nodes > manyNodes {
		cores, megabytes = serverCoresMany, serverMegabytesMany
	}
	name := fmt.Sprintf("server of %d nodes: ", nodes)
	return []proof.Bar{
		{Name: name + "CPU while no run is open", Unit: "cores", Figure: r.IdleCores,
			Limit: cores, Timing: true},
		{Name: name + "CPU in a run", Unit: "cores", Figure: r.RunCores, Limit: cores,
			Timing: true},
		{Name: name + "private memory", Unit: "MB", Figure: float64(r.Private) / 1e6,
			Limit: megabytes, Timing: true},
		{Name: name + "until a node that joins in a run can measure", Unit: "s",
			Figure: r.Joins.Seconds(), Limit: joinSeconds, Timing: true},
		{Name: name + "until a random pair's bound is there, median", Unit: "ms",
			Figure: float64(r.Pair) / 1e6, Limit: pairMilliseconds, Timing: true},
	}
}

func barsOfFleet(o fleet.Options, r fleet.Result) []proof.Bar {
	if r.Nodes == 0 {
		return nil
	}
	name := fmt.Sprintf("fleet of %d", o.Nodes)
	limit := randomLimit
	if o.Nodes > manyNodes {
		limit = randomLimitMany
	}
	absent := ""
	if r.Queries < leastFleetSample || r.EdgeBound == 0 {
		absent = fmt.Sprintf("%d questions were answered", r.Queries)
	}
	bars := []proof.Bar{
		{Name: name + ": bounds that miss the truth", Unit: "bounds", Figure: float64(r.Outside),
			Absent: absent},
		{Name: name + ": median bound of a random pair", Unit: "× that of neighbours",
			Figure: ratio(r.RandomBound, r.EdgeBound), Limit: limit, Absent: absent},
	}
	if r.SmallCPU > 0 {
		small := fmt.Sprintf("× that in fleets of %d", fleet.SmallNodes)
		bars = append(bars, proof.Bar{Name: name + ": bytes that a node sends for the graph",
			Unit: small, Figure: r.Bytes / r.SmallBytes, Limit: sizeLimit},
			proof.Bar{Name: name + ": CPU of a node for the graph", Unit: small,
				Figure: ratio(r.AloneCPU, r.SmallAloneCPU), Limit: sizeLimit, Timing: true})
	}
	if o.Talks > 0 {
		bars = append(bars, proof.Bar{Name: name + ": median bound where tuples travel",
			Unit: "× that of neighbours", Figure: ratio(r.TalkBound, r.EdgeBound),
			Limit: talkLimit, Absent: absent})
	}
	return bars
}

// barsOfHostile returns the bars of the hostile simulation, in which some nodes lie, if there was
// one.
func barsOfHostile(o fleet.Options, r fleet.Result) []proof.Bar {
	if r.Nodes == 0 {
		return nil
	}
	absent := ""
	if r.Queries < leastFleetSample {
		absent = fmt.Sprintf("%d questions were answered", r.Queries)
	}
	name := fmt.Sprintf("fleet of %d, %g %% of them liars, cut in two for %v: ", o.Nodes,
		100*o.Liars, o.Cut)
	return []proof.Bar{
		{Name: name + "bounds that miss the truth", Unit: "bounds", Figure: float64(r.Outside),
			Absent: absent},
		{Name: name + "honest nodes that are named as liars", Unit: "nodes",
			Figure: float64(r.NamedHonest)},
	}
}

// barsOfKilled returns the bars of the simulation in which many nodes die, if there was one.
func barsOfKilled(share float64, r fleet.Result) []proof.Bar {
	if r.Nodes == 0 {
		return nil
	}
	name := fmt.Sprintf("fleet of %d, %g %% of them die at once: ", r.Nodes, 100*share)
	absent := ""
	if r.Queries < leastFleetSample {
		absent = fmt.Sprintf("%d questions were answered", r.Queries)
	}
	return []proof.Bar{
		{Name: name + "until all have their neighbours again", Unit: "s",
			Figure: r.Healed.Seconds(), Limit: healSeconds},
		{Name: name + "bounds that miss the truth", Unit: "bounds", Figure: float64(r.Outside),
			Absent: absent},
	}
}

func ratio(x, y time.Duration) float64 { return float64(x) / float64(max(y, 1)) }

// fleetLine is what "cp-bench fleet --json" prints. Scripts read it: append only.
type fleetLine struct {
	Nodes          int     `json:"nodes"`
	Irregular      int     `json:"irregular_nodes"`
	MeasuredPairs  int     `json:"measured_pairs"`
	Queries        uint64  `json:"queries"`
	Outside        uint64  `json:"outside"`
	Unrelated      uint64  `json:"unrelated"`
	EdgeBound_ns   int64   `json:"edge_bound_ns"`
	RandomBound_ns int64   `json:"random_bound_ns"`
	TalkBound_ns   int64   `json:"talk_bound_ns"`
	Random         float64 `json:"random_by_edge"`
	Talk           float64 `json:"talk_by_edge"`
	Hops           float64 `json:"relations_in_a_path"`
	GraphMessages  float64 `json:"graph_messages_a_second"`
	GraphBytes     float64 `json:"graph_bytes_a_second"`
	GraphCPU_ns    int64   `json:"graph_cpu_ns_a_second"`
	ProbePackets   float64 `json:"probe_packets_a_second"`
	ProbeBytes     float64 `json:"probe_bytes_a_second"`

	// These are 0 if no server was watched.
	ServerIdleCores float64 `json:"server_idle_cores"`
	ServerRunCores  float64 `json:"server_run_cores"`
	ServerPrivateMB float64 `json:"server_private_mb"`
	Join_ns         int64   `json:"join_ns"`
	RunTrains       int     `json:"run_trains"`
	RunEnds_ns      int64   `json:"run_ends_ns"`
	Pair_ns         int64   `json:"pair_ns"`
	Pair99_ns       int64   `json:"pair_99_percent_ns"`
	PairsUnrelated  int     `json:"pairs_unrelated"`
	OutsidePairs    int     `json:"outside_pairs"`
	Asked99_ns      int64   `json:"ask_99_percent_ns"`
	Asked_ns        int64   `json:"ask_ns"`
	Evaluated_ns    int64   `json:"server_evaluates_ns"` // until the first pair is known
	AllNodes_ns     int64   `json:"server_all_nodes_ns"` // until all nodes' state is known: longest
	ServerSlower    int     `json:"server_slower"`
	ServerBeats     float64 `json:"server_beats"` // share of the due pings that nodes sent

	// These are 0 if there was no hostile simulation.
	HostileQueries      uint64  `json:"hostile_queries"`
	HostileOutside      uint64  `json:"hostile_outside"`
	HostileOutsidePairs int     `json:"hostile_outside_pairs"`
	HostileUnrelated    uint64  `json:"hostile_unrelated"`
	HostileRandom       float64 `json:"hostile_random_by_edge"`

	// These are 0 if nobody was killed.
	Healed_ns     int64  `json:"healed_ns"`
	KilledQueries uint64 `json:"killed_queries"`
	KilledOutside uint64 `json:"killed_outside"`

	// These are the figures of a node in small fleets.
	SmallMessages float64 `json:"small_graph_messages_a_second"`
	SmallBytes    float64 `json:"small_graph_bytes_a_second"`
	SmallCPU_ns   int64   `json:"small_graph_cpu_ns_a_second"`

	// AloneCPU_ns is the CPU time of a node that runs alone and gets again the messages that it
	// received in the fleet. SmallAloneCPU_ns is the same for a node of a small fleet. The CPU
	// times above also include the simulation and the misses of the caches.
	AloneCPU_ns      int64 `json:"node_cpu_ns_a_second"`
	SmallAloneCPU_ns int64 `json:"small_node_cpu_ns_a_second"`

	// These are the figures of the hostile simulation.
	Liars       int   `json:"liars"`
	Named       int   `json:"liars_named"`
	Joined_ns   int64 `json:"joined_after_cut_ns"` // 0: not, or there was no cut
	NamedHonest int   `json:"honest_named"`

	Tables []fleet.KelpCell `json:"tables"` // of KELP's thesis
}

func printFleet(cmd *cobra.Command, r, h, k fleet.Result, cells []fleet.KelpCell,
	s fleet.ServerResult, asJSON bool) error {
	out := cmd.OutOrStdout()
	if asJSON {
		return json.NewEncoder(out).Encode(fleetLine{
			Nodes: r.Nodes, Irregular: r.Irregular, MeasuredPairs: r.Measured,
			Queries: r.Queries, Outside: r.Outside, Unrelated: r.Unrelated,
			EdgeBound_ns: int64(r.EdgeBound), RandomBound_ns: int64(r.RandomBound),
			TalkBound_ns: int64(r.TalkBound), Random: ratio(r.RandomBound, r.EdgeBound),
			Talk: ratio(r.TalkBound, r.EdgeBound), Hops: r.Hops,
			GraphMessages: r.Messages, GraphBytes: r.Bytes, GraphCPU_ns: int64(r.GraphCPU),
			ProbePackets: r.TrainPackets, ProbeBytes: r.TrainBytes,
			ServerIdleCores: s.IdleCores, ServerRunCores: s.RunCores,
			ServerPrivateMB: float64(s.Private) / 1e6, Join_ns: int64(s.Joins),
			RunTrains: s.Trains, RunEnds_ns: int64(s.RunEnds),
			Pair_ns: int64(s.Pair), Pair99_ns: int64(s.Pair99), PairsUnrelated: s.Unrelated,
			OutsidePairs: r.OutsideOf, Asked99_ns: int64(s.Asked99),
			Asked_ns: int64(s.Asked), Evaluated_ns: int64(s.Evaluated),
			AllNodes_ns:  int64(s.All),
			ServerSlower: s.Slower, ServerBeats: s.Beats,
			HostileQueries: h.Queries, HostileOutside: h.Outside,
			HostileOutsidePairs: h.OutsideOf, HostileUnrelated: h.Unrelated,
			HostileRandom: ratio(h.RandomBound, h.EdgeBound),
			Healed_ns:     int64(k.Healed), KilledQueries: k.Queries, KilledOutside: k.Outside,
			SmallMessages: r.SmallMessages, SmallBytes: r.SmallBytes,
			SmallCPU_ns: int64(r.SmallCPU), AloneCPU_ns: int64(r.AloneCPU),
			SmallAloneCPU_ns: int64(r.SmallAloneCPU),
			Joined_ns:        int64(h.Joined),
			Liars:            h.Liars, Named: h.Named, NamedHonest: h.NamedHonest,
			Tables: cells,
		})
	}
	if r.Nodes > 0 {
		printSimulated(out, r, h, k)
	}
	printTables(out, cells)
	if s.Trains > 0 {
		fmt.Fprintf(out, "server      %.3f cores without a run, %.3f in a run; "+
			"%.0f MB of private memory at most\n", s.IdleCores, s.RunCores, float64(s.Private)/1e6)
		fmt.Fprintf(out, "            %v until a node that joins in a run can measure\n",
			s.Joins.Round(time.Millisecond))
		fmt.Fprintf(out, "            %v until a random pair's bound is there, 99 %% within %v "+
			"(of refusals: %v); %d pairs have none\n", s.Pair, s.Pair99, s.Asked99, s.Unrelated)
		fmt.Fprintf(out, "            %v until a question about all nodes is answered\n",
			s.All.Round(time.Millisecond))
		fmt.Fprintf(out, "            %v to end a run of %d trains\n",
			s.RunEnds.Round(time.Millisecond), s.Trains)
	}
	return nil
}

func printSimulated(out io.Writer, r, h, k fleet.Result) {
	fmt.Fprintf(out, "nodes       %d; %d of them lacked a neighbour at the end\n", r.Nodes,
		r.Irregular)
	fmt.Fprintf(out, "measured    %d pairs\n", r.Measured)
	fmt.Fprintf(out, "truth       %d of %d bounds of random pairs miss it; %d are not known\n",
		r.Outside, r.Queries, r.Unrelated)
	if h.Nodes > 0 {
		fmt.Fprintf(out, "hostile     %d of %d bounds miss it; %d are not known; "+
			"%d of %d liars are named, and %d others\n", h.Outside, h.Queries, h.Unrelated,
			h.Named, h.Liars, h.NamedHonest)
	}
	if k.Nodes > 0 {
		fmt.Fprintf(out, "killed      %v until the others had all their neighbours again; "+
			"%d of %d bounds miss the truth\n", k.Healed, k.Outside, k.Queries)
	}
	fmt.Fprintf(out, "bound       ± %v, median of neighbours\n", r.EdgeBound)
	fmt.Fprintf(out, "            ± %v, median of random pairs: %.2f times that; "+
		"%.1f relations in a path\n", r.RandomBound, ratio(r.RandomBound, r.EdgeBound), r.Hops)
	fmt.Fprintf(out, "            ± %v, median where tuples travel: %.2f times that\n", r.TalkBound,
		ratio(r.TalkBound, r.EdgeBound))
	fmt.Fprintf(out, "each node   %.1f messages and %.0f bytes a second for the graph, %v of CPU\n",
		r.Messages, r.Bytes, r.AloneCPU)
	fmt.Fprintf(out, "            %.1f, %.0f and %v in fleets of %d nodes\n", r.SmallMessages,
		r.SmallBytes, r.SmallAloneCPU, fleet.SmallNodes)
	fmt.Fprintf(out, "            %.0f packets and %.0f bytes a second for its trains\n",
		r.TrainPackets, r.TrainBytes)
}
