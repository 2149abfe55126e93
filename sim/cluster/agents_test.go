package cluster

import (
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/cloudprofiler/cloudprofiler/internal/proof"
	"github.com/cloudprofiler/cloudprofiler/internal/seed"
	"github.com/cloudprofiler/cloudprofiler/sim"
	"github.com/cloudprofiler/cloudprofiler/sim/config"
)

// fleetOptions returns the options of a fleet of the product's agents with churn. Half of the
// agents form a graph at the beginning, and the others join this graph. There are several shards.
func fleetOptions(t testing.TB, url, name string, agents, processes int) Options {
	t.Helper()
	b, err := os.ReadFile("../../configs/fleet.conf")
	if err != nil {
		t.Fatal(err)
	}
	o := Options{URL: url, Simulation: name, Configuration: string(b), Processes: processes,
		Command: command}
	for _, c := range [][2]string{{"network.size", fmt.Sprint(agents / 2)},
		{"init.join", "AgentGraph"}, {"SIZE", fmt.Sprint(agents)}, {"GROWN", "1s"},
		{"MEASURED", "1s"}, {"CHURN", "0.01"}, {"protocol.agents.sample", "200"},
		{"control.observe.step", "500ms"}} {
		o.Set = append(o.Set, config.Choice{Key: c[0], Value: c[1]})
	}
	return o
}

// TestBarAgents runs agents in several processes. The processes are killed, and the simulation goes
// on from its checkpoint in another number of processes. The result must be the same as with one
// process.
func TestBarAgents(t *testing.T) {
	seed.NotUnderRace(t, "the package agents tests its code under the race detector")
	url := serve(t)
	agents, counts := 8300, []int{3}
	if proof.WantsFull() {
		agents, counts = 40_000, []int{1, 2, 4, 8}
	}
	o := fleetOptions(t, url, "agents", agents, 1)
	digest, out := runAlone(t, o)
	s := sim.NewStream(1, 0)
	different, kills := 0, 0
	later := map[int]int{1: 2, 2: 4, 3: 2, 4: 8, 8: 1}
	for _, k := range counts {
		o.Processes, o.Every, o.Restarts = k, sim.Time(500*time.Millisecond), 1
		killed, moved := false, 0
		o.Progress = func(what string, l *Leader) {
			switch {
			case what == "saved" && !killed:
				killed = true
				if err := l.processes[s.Int(len(l.processes))].Process.Kill(); err != nil {
					t.Error(err)
				}
			case what == "started" && killed && moved == 0:
				moved = later[k]
				l.wanted = moved
			}
		}
		r := run(t, o)
		kills += r.Restarts
		if r.Digest != digest || r.Out != out {
			different++
			t.Errorf("%d processes, later %d, give another result:\n%s\nwant\n%s", k, moved, r.Out,
				out)
		}
		if moved == 0 || moved > 1 && r.Counts.Remote == 0 {
			t.Errorf("%d processes, later %d, exchanged %d messages", k, moved, r.Counts.Remote)
		}
	}
	proof.Check(t,
		proof.Bar{Name: "kills of processes with agents", Figure: float64(kills),
			Limit: float64(len(counts)), AtLeast: true, Unit: "kills"},
		proof.Bar{Name: "results of agents that processes changed", Figure: float64(different),
			Unit: "results"})
}
