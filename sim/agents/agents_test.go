package agents

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/cloudprofiler/cloudprofiler/internal/leak"
	"github.com/cloudprofiler/cloudprofiler/sim"
	"github.com/cloudprofiler/cloudprofiler/sim/config"
	"github.com/cloudprofiler/cloudprofiler/sim/library"
)

func TestMain(m *testing.M) { os.Exit(leak.Main(m)) }

// buildExample builds the simulation of an example file, with other values for some keys.
func buildExample(t testing.TB, workers int, out io.Writer, set ...string) *library.Simulation {
	t.Helper()
	b, err := os.ReadFile("../../configs/fleet.conf")
	if err != nil {
		t.Fatal(err)
	}
	f, err := config.Parse("fleet.conf", bytes.NewReader(b))
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i < len(set); i += 2 {
		f.Set(set[i], set[i+1])
	}
	s, err := library.Build(f, library.Options{Workers: workers, Out: out, Classes: Classes()})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// runExample runs the simulation that buildExample returns.
func runExample(t *testing.T, workers int, set ...string) (out, digest string) {
	t.Helper()
	var text bytes.Buffer
	s := buildExample(t, workers, &text, set...)
	if err := s.Run(context.Background()); err != nil {
		t.Fatal(err)
	}
	sum, err := s.World.Digest()
	if err != nil {
		t.Fatal(err)
	}
	return text.String(), fmt.Sprintf("%x", sum)
}

// lastNumber returns the number with the given name from the last line that an observer printed.
func lastNumber(t *testing.T, out, name string) float64 {
	t.Helper()
	all := regexp.MustCompile(name+`=([0-9.]+)`).FindAllStringSubmatch(out, -1)
	if len(all) == 0 {
		t.Fatalf("no %s in\n%s", name, out)
	}
	v, err := strconv.ParseFloat(all[len(all)-1][1], 64)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// TestFleet lets a small fleet grow while nodes die. At the end, only a few agents may lack
// neighbours. All bounds must contain the truth, and two workers must give the same result.
func TestFleet(t *testing.T) {
	set := []string{"SIZE", "250", "GROWN", "15s", "MEASURED", "8s", "protocol.agents.sample", "20"}
	out, digest := runExample(t, 1, set...)
	if n := lastNumber(t, out, "agents"); n < 240 {
		t.Errorf("%v agents live", n)
	}
	if n := lastNumber(t, out, "irregular"); n > 12 {
		t.Errorf("%v agents lack neighbours:\n%s", n, out)
	}
	pairs, outside, median := lastNumber(t, out, "pairs"), lastNumber(t, out, "outside"),
		lastNumber(t, out, "median")
	if pairs < 20 || outside != 0 || median < 10 || median > 60 {
		t.Errorf("%v pairs, %v bounds miss the truth, median %v µs:\n%s", pairs, outside, median,
			out)
	}
	if again, sum := runExample(t, 2, set...); again != out || sum != digest {
		t.Errorf("two workers give another result:\n%s\nwant\n%s", again, out)
	}
}

// TestCounter checks that a counter runs forwards, at a rate near the nominal one.
func TestCounter(t *testing.T) {
	w := sim.New(1, 1)
	for n := range sim.Node(200) {
		c := CounterOf(w, n)
		begin := c.At(0)
		for before, at := begin, sim.Time(1); at < 1e12; at += at/3 + 1 {
			now := c.At(at)
			if now < before {
				t.Fatalf("node %d: %d at %v, and %d before", n, now, at, before)
			}
			before = now
		}
		const second = 1e9
		rate := float64(c.At(100*second)-begin) / 100 / Nominal_hz
		if rate < 1-60e-6 || rate > 1+60e-6 {
			t.Errorf("node %d runs at %v of the nominal rate", n, rate)
		}
		for at := sim.Time(0); at < 60*second; at += second {
			here := float64(c.At(at+second)-c.At(at)) / Nominal_hz
			if off := here - rate; off > 0.3e-6 || off < -0.3e-6 {
				t.Fatalf("node %d at %v: the rate wanders by %v", n, at, off)
			}
		}
	}
}

// TestAgentsNeedToJoin sends a message to a node that is not an agent. The simulation must end with
// an error.
func TestAgentsNeedToJoin(t *testing.T) {
	f, err := config.Parse("x", strings.NewReader("network.size 2\nsimulation.endtime 1s\n"+
		"protocol.net UniformRandomTransport\nprotocol.net.mindelay 1ms\n"+
		"protocol.a OverlayAgents\nprotocol.a.transport net\n"))
	if err != nil {
		t.Fatal(err)
	}
	s, err := library.Build(f, library.Options{Classes: Classes()})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Start(); err != nil {
		t.Fatal(err)
	}
	s.World.Post(1, 0, 0, tickEvent, 0)
	if err := s.World.Run(context.Background()); err == nil ||
		!strings.Contains(err.Error(), "the node is not an agent") {
		t.Errorf("%v", err)
	}
}

// TestAgentGraph begins with a graph in which each node has all its neighbours. Each node must keep
// them, and so no node searches for others (with a walk).
func TestAgentGraph(t *testing.T) {
	set := []string{"network.size", "300", "init.join", "AgentGraph", "GROWN", "0", "CHURN", "0",
		"MEASURED", "20s", "protocol.agents.sample", "100"}
	out, digest := runExample(t, 1, set...)
	for _, line := range strings.Split(strings.TrimSpace(out), "\n") {
		if lastNumber(t, line, "agents") != 300 || lastNumber(t, line, "irregular") != 0 {
			t.Errorf("an agent lost a neighbour, or had none: %s", line)
		}
	}
	// Pings and answers along seven edges take 3.6 to 3.9 messages a second.
	if rate := lastNumber(t, out, "messages/s"); rate < 3.4 || rate > 4 {
		t.Errorf("%v messages a second:\n%s", rate, out)
	}
	if again, sum := runExample(t, 3, set...); again != out || sum != digest {
		t.Errorf("three workers give another result:\n%s\nwant\n%s", again, out)
	}
}

// TestSmallGraph asks for a graph with too few nodes for seven neighbours in each direction.
func TestSmallGraph(t *testing.T) {
	f, err := config.Parse("x", strings.NewReader("network.size 14\nsimulation.endtime 1s\n"+
		"protocol.net UniformRandomTransport\nprotocol.net.mindelay 1ms\n"+
		"protocol.a OverlayAgents\nprotocol.a.transport net\n"+
		"init.a AgentGraph\ninit.a.protocol a\n"))
	if err != nil {
		t.Fatal(err)
	}
	s, err := library.Build(f, library.Options{Classes: Classes()})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Start(); err == nil || !strings.Contains(err.Error(), "set network.size to 15") {
		t.Errorf("%v", err)
	}
}

// TestTrainsAreCounted runs a fleet whose nodes die, twice. The first time, all agents keep what
// their trains prove. The second time, only a few agents do, and the trains of the others are only
// counted. Both times the number of trains must be the same.
func TestTrainsAreCounted(t *testing.T) {
	set := []string{"network.size", "60", "init.join", "AgentGraph", "GROWN", "0", "CHURN", "0.05",
		"MEASURED", "7s", "control.observe.step", "2s", "protocol.agents.train", "300ms"}
	trains := func(sample string) []string {
		out, _ := runExample(t, 1, append(set[:len(set):len(set)], "protocol.agents.sample",
			sample)...)
		return regexp.MustCompile(`(agents|trains)=\d+`).FindAllString(out, -1)
	}
	all, few := trains("1"), trains("1000")
	if fmt.Sprint(all) != fmt.Sprint(few) || len(all) != 10 {
		t.Errorf("%v, and %v if all agents keep their trains", few, all)
	}
}

// TestDeadAgents checks that exactly the living nodes have the state of an agent.
func TestDeadAgents(t *testing.T) {
	s := buildExample(t, 1, io.Discard, "network.size", "60", "init.join", "AgentGraph",
		"GROWN", "0", "CHURN", "0.1", "MEASURED", "5s", "protocol.agents.sample", "1")
	if err := s.Run(context.Background()); err != nil {
		t.Fatal(err)
	}
	f, dead := s.World.Protocol(0).(*Fleet), 0
	for n := range sim.Node(s.World.Joined()) {
		up, has, keeps := s.World.Up(n), f.of(n).graph != nil, f.of(n).in.kept[n] != nil
		if has != up || keeps && !up {
			t.Errorf("node %d lives: %v; has a graph: %v; keeps trains: %v", n, up, has, keeps)
		}
		if !up {
			dead++
		}
	}
	if dead < 10 {
		t.Errorf("%d nodes died, want 10 or more", dead)
	}
}
