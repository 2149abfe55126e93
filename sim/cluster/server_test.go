package cluster

import (
	"os"
	"regexp"
	"testing"
	"time"

	"github.com/cloudprofiler/cloudprofiler/internal/proof"
	"github.com/cloudprofiler/cloudprofiler/internal/seed"
	"github.com/cloudprofiler/cloudprofiler/sim"
	"github.com/cloudprofiler/cloudprofiler/sim/config"
)

// servedFleet returns the options of a fleet under the product's server. A shard has thousands of
// nodes, but the server would take too long for thousands of agents. So most nodes do nothing, and
// each of the four shards has a few agents. Agents join all the time, and nodes of both kinds die.
func servedFleet(t testing.TB, url string) Options {
	t.Helper()
	b, err := os.ReadFile("../../configs/coordinator.conf")
	if err != nil {
		t.Fatal(err)
	}
	o := Options{URL: url, Simulation: "served", Command: command, Restarts: 1,
		Every: sim.Time(800 * time.Millisecond), Configuration: string(b) + `
include.control empty join die fleet
control.empty DynamicNetwork
control.empty.add 4082
control.empty.from 1ms
control.empty.step 1400ms
control.empty.until 3s
control.join DynamicNetwork
control.join.add 5
control.join.from 2ms
control.join.step 250ms
control.join.init.0 AgentJoin
control.join.init.0.protocol clients
control.die DynamicNetwork
control.die.add -0.03
control.die.step 1s
`}
	for _, c := range [][2]string{{"GROWN", "1500ms"}, {"MEASURED", "5500ms"}, {"LIARS", "0.1"},
		{"protocol.clients.lie", "10ms"}, {"protocol.clients.suspend", "20s"},
		{"protocol.net.mindelay", "8ms"}, {"control.fleet.step", "500ms"}} {
		o.Set = append(o.Set, config.Choice{Key: c[0], Value: c[1]})
	}
	return o
}

// TestBarServer runs the product's server and its agents in several processes. Each process is
// killed once, and the simulation goes on from its checkpoint in another number of processes. The
// result must be the same as with one process.
func TestBarServer(t *testing.T) {
	seed.NotUnderRace(t, "the package server tests its code under the race detector")
	counts := []int{3}
	if proof.WantsFull() {
		counts = []int{1, 2, 4, 8}
	}
	o := servedFleet(t, serve(t))
	digest, out := runAlone(t, o)
	if !regexp.MustCompile(` related=[1-9].* found=[1-9]`).MatchString(out) {
		t.Errorf("the server relates no pairs, or finds no liar:\n%s", out)
	}
	s := sim.NewStream(1, 0)
	different, kills, wanted := 0, 0, 0
	for _, k := range counts {
		for victim := range k {
			saved, last, later := 0, 1+s.Int(8), 1+(k+victim)%4
			o.Processes = k
			o.Progress = func(what string, l *Leader) {
				switch what {
				case "saved":
					if saved++; saved == last {
						if err := l.processes[victim].Process.Kill(); err != nil {
							t.Error(err)
						}
					}
				case "died":
					l.wanted = later
				}
			}
			r := run(t, o)
			kills += r.Restarts
			wanted++
			if r.Digest != digest || r.Out != out {
				different++
				t.Errorf("process %d of %d killed, %d later: another result:\n%s\nwant\n%s", victim,
					k, later, r.Out, out)
			}
			if later > 1 && r.Counts.Remote == 0 {
				t.Errorf("%d processes exchanged no messages", later)
			}
		}
	}
	proof.Check(t,
		proof.Bar{Name: "kills of processes with the server or its agents", Figure: float64(kills),
			Limit: float64(wanted), AtLeast: true, Unit: "kills"},
		proof.Bar{Name: "results of the server that processes changed", Figure: float64(different),
			Unit: "results"})
}
