package cluster

import (
	"bytes"
	"context"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/cloudprofiler/cloudprofiler/internal/proof"
	"github.com/cloudprofiler/cloudprofiler/internal/reexec"
	"github.com/cloudprofiler/cloudprofiler/internal/seed"
	"github.com/cloudprofiler/cloudprofiler/sim"
	"github.com/cloudprofiler/cloudprofiler/sim/config"
	"github.com/cloudprofiler/cloudprofiler/sim/library"
	"github.com/cloudprofiler/cloudprofiler/sim/server"
)

func serve(t testing.TB) string {
	t.Helper()
	s, err := Serve(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		s.Shutdown()
		s.WaitForShutdown()
	})
	return s.ClientURL()
}

func command(part string) (*exec.Cmd, error) {
	c, err := reexec.Command("part", part)
	if err == nil {
		c.Stderr = os.Stderr
	}
	return c, err
}

// churnOptions returns the options of a simulation with churn. It uses every kind of component.
func churnOptions(t testing.TB, url, name string, processes int, set ...config.Choice) Options {
	t.Helper()
	b, err := os.ReadFile("../library/testdata/churn-ed.conf")
	if err != nil {
		t.Fatal(err)
	}
	return Options{URL: url, Simulation: name, Configuration: string(b), Set: set,
		Processes: processes, Command: command}
}

// runAlone runs a simulation in this process.
func runAlone(t testing.TB, o Options) (digest, out string) {
	t.Helper()
	f, err := config.Parse("configuration", strings.NewReader(o.Configuration))
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range o.Set {
		f.Set(c.Key, c.Value)
	}
	var b bytes.Buffer
	s, err := library.Build(f, library.Options{Workers: 1, Out: &b, Classes: server.Classes()})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if err := s.Run(context.Background()); err != nil {
		t.Fatal(err)
	}
	sum, err := s.World.Digest()
	if err != nil {
		t.Fatal(err)
	}
	return hex.EncodeToString(sum[:]), b.String()
}

func run(t testing.TB, o Options) Result {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 4*time.Minute)
	defer cancel()
	r, err := Run(ctx, o)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// shortRun makes the simulation short.
var shortRun = []config.Choice{{Key: "SIZE", Value: "9000"}, {Key: "simulation.endtime",
	Value: "2*CYCLE"}}

// TestProcessesGiveTheSame runs a simulation in one to four processes, with and without moving
// shards.
func TestProcessesGiveTheSame(t *testing.T) {
	url := serve(t)
	o := churnOptions(t, url, "same", 1, shortRun...)
	digest, out := runAlone(t, o)
	counts := []int{3}
	if !seed.Race {
		counts = append(counts, 2)
	}
	for _, k := range counts {
		o.Processes, o.Balance, o.Every = k, k == 3, sim.Time(300*time.Millisecond)
		r := run(t, o)
		if r.Digest != digest || r.Out != out {
			t.Errorf("%d processes give another result:\n%s\nwant\n%s", k, r.Out, out)
		}
		if r.Counts.Remote == 0 {
			t.Errorf("%d processes exchanged nothing", k)
		}
	}
}

// TestBarKills kills processes at any time. The simulation restarts from its last checkpoint. It
// must give the same result as without a kill.
func TestBarKills(t *testing.T) {
	url := serve(t)
	kills := max(3/seed.Share(), 1)
	if proof.WantsFull() {
		kills = 200
	}
	s := sim.NewStream(1, 0)
	done, different := 0, 0
	for n := 0; done < kills; n++ {
		o := churnOptions(t, url, fmt.Sprintf("kills-%d", n), 2+s.Int(3), shortRun...)
		o.Set = append(o.Set[:len(o.Set):len(o.Set)], config.Choice{Key: "random.seed",
			Value: fmt.Sprint(n)})
		digest, out := runAlone(t, o)
		o.Every, o.Restarts = sim.Time(100*time.Millisecond), 1<<30
		left := min(10, kills-done)
		var timers []*time.Timer
		o.Progress = func(what string, l *Leader) {
			if what == "started" && left > 0 {
				left--
				victim := l.processes[s.Int(len(l.processes))].Process
				after := time.Duration(s.Int(800)) * time.Millisecond
				timers = append(timers, time.AfterFunc(after, func() { _ = victim.Kill() }))
			}
		}
		r := run(t, o)
		for _, timer := range timers {
			timer.Stop()
		}
		if r.Digest != digest || r.Out != out {
			different++
			t.Errorf("simulation %d, killed %d times, gives another result:\n%s\nwant\n%s", n,
				r.Restarts, r.Out, out)
		}
		done += r.Restarts
		if r.Restarts == 0 {
			t.Logf("simulation %d ended before its process was killed", n)
		}
		if n > 10*kills+10 {
			t.Fatal("processes end before they are killed")
		}
	}
	proof.Check(t,
		proof.Bar{Name: "kills of simulating processes", Figure: float64(done),
			Limit: float64(kills), AtLeast: true, Unit: "kills"},
		proof.Bar{Name: "results that kills changed", Figure: float64(different), Unit: "results"})
}

// TestKeep lets a simulation fail after a checkpoint. The next simulation of the same name goes on
// from there, and leaves no checkpoint. So the third simulation starts at the beginning.
func TestKeep(t *testing.T) {
	seed.NotUnderRace(t, "TestBarKills restarts processes from checkpoints, too")
	url := serve(t)
	o := churnOptions(t, url, "keep", 2, shortRun...)
	digest, out := runAlone(t, o)
	o.Every, o.Keep = sim.Time(300*time.Millisecond), true
	var begun []bool
	o.Progress = func(what string, l *Leader) {
		switch what {
		case "started":
			begun = append(begun, l.saved == nil)
		case "saved":
			if len(begun) == 1 {
				_ = l.processes[1].Process.Kill()
			}
		}
	}
	if _, err := Run(t.Context(), o); err == nil || !strings.Contains(err.Error(), "died") {
		t.Fatalf("a process was killed: %v", err)
	}
	o.Processes = 3
	for range 2 {
		if r := run(t, o); r.Digest != digest || r.Out != out {
			t.Errorf("another result:\n%s\nwant\n%s", r.Out, out)
		}
	}
	if fmt.Sprint(begun) != "[true false true]" {
		t.Errorf("simulations that started at the beginning: %v", begun)
	}
}

// TestDetach changes the number of processes while a simulation runs.
func TestDetach(t *testing.T) {
	seed.NotUnderRace(t, "TestBarKills restarts processes from checkpoints, too")
	url := serve(t)
	o := churnOptions(t, url, "detach", 3, shortRun...)
	digest, out := runAlone(t, o)
	o.Every = sim.Time(200 * time.Millisecond)
	var counts []int
	o.Progress = func(what string, l *Leader) {
		if what == "started" {
			counts = append(counts, len(l.processes))
			l.wanted = []int{2, 4, 4}[min(len(counts)-1, 2)]
		}
	}
	if r := run(t, o); r.Digest != digest || r.Out != out || r.Restarts != 0 {
		t.Errorf("another result, %d restarts:\n%s\nwant\n%s", r.Restarts, r.Out, out)
	}
	if fmt.Sprint(counts) != "[3 2 4]" {
		t.Errorf("processes %v, want 3, 2, 4", counts)
	}
}

// TestLeave lets the last of three processes leave while the simulation runs. The simulation must
// not start again. Then the first process dies. Two processes continue from a checkpoint of three,
// and one of them leaves, too.
func TestLeave(t *testing.T) {
	seed.NotUnderRace(t, "TestBarKills moves shards, too")
	url := serve(t)
	o := churnOptions(t, url, "leave", 3, shortRun...)
	digest, out := runAlone(t, o)
	o.Every, o.Restarts = sim.Time(200*time.Millisecond), 1
	var happened []string
	o.Progress = func(what string, l *Leader) {
		if what == "saved" {
			return
		}
		happened = append(happened, what)
		var err error
		if what == "started" {
			err = l.Leave()
		} else if len(happened) == 2 {
			err = l.processes[0].Process.Kill()
		}
		if err != nil {
			t.Error(err)
		}
	}
	if r := run(t, o); r.Digest != digest || r.Out != out || r.Restarts != 1 {
		t.Errorf("another result, %d restarts:\n%s\nwant\n%s", r.Restarts, r.Out, out)
	}
	if text := fmt.Sprint(happened); text != "[started left died started left]" {
		t.Error(text)
	}
}

// TestToken starts several simulations at the same time. The simulations must run one after the
// other. Each of them stays at its beginning for a moment, so that another one would be noticed.
func TestToken(t *testing.T) {
	url := serve(t)
	var wait sync.WaitGroup
	var begins sync.Mutex
	for i := range 3 {
		o := churnOptions(t, url, fmt.Sprintf("turn-%d", i), 2, config.Choice{Key: "SIZE",
			Value: "50"}, config.Choice{Key: "simulation.endtime", Value: "CYCLE"})
		start := o.Command
		o.Command = func(part string) (*exec.Cmd, error) {
			var p Part
			if err := json.Unmarshal([]byte(part), &p); err != nil || p.Process > 0 {
				return start(part)
			}
			if !begins.TryLock() {
				t.Error("two simulations run at the same time")
				return start(part)
			}
			defer begins.Unlock()
			time.Sleep(100 * time.Millisecond)
			return start(part)
		}
		wait.Go(func() {
			o.Progress = func(string, *Leader) {}
			if _, err := Run(context.Background(), o); err != nil {
				t.Error(err)
			}
		})
	}
	wait.Wait()
}

// TestInject adds events from outside while a simulation comes to its end. Every event that is
// accepted must happen.
func TestInject(t *testing.T) {
	url := serve(t)
	const text = "network.size 100\nsimulation.endtime 1000h\nprotocol.l IdleProtocol\n" +
		"protocol.t UniformRandomTransport\nprotocol.t.mindelay 1ms\n" +
		"protocol.i InfectionED\nprotocol.i.linkable l\nprotocol.i.transport t\n" +
		"init.w WireRingLattice\ninit.w.k 2\ninit.w.protocol l\n"
	o := Options{URL: url, Simulation: "inject", Configuration: text, Processes: 2,
		Command: command}
	nc, err := nats.Connect(url)
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	stop := make(chan struct{})
	accepted, refused := 0, 0
	var wait sync.WaitGroup
	wait.Go(func() {
		e, err := json.Marshal(Inject{Node: 1, Protocol: 0, Kind: 1})
		if err != nil {
			t.Error(err)
		}
		for {
			select {
			case <-stop:
				return
			default:
			}
			// The infection protocol has the number 0. Each of its events causes at most one more.
			// Three accepted events suffice for this test.
			m, err := nc.Request("sim.inject.0.inject.0", e, 20*time.Millisecond)
			switch {
			case err != nil:
			case string(m.Data) == "accepted":
				accepted++
			default:
				refused++
			}
			if accepted >= 3 {
				return
			}
		}
	})
	o.Set = []config.Choice{{Key: "protocol.i.limit", Value: "5"}}
	r := run(t, o)
	close(stop)
	wait.Wait()
	if int(r.Counts.Events) < accepted {
		t.Errorf("%d events happened, %d were accepted", r.Counts.Events, accepted)
	}
	t.Logf("%d accepted, %d refused, %d events", accepted, refused, r.Counts.Events)
}

// TestWrongConfigurations checks that a simulation with a wrong configuration is not restarted.
func TestWrongConfigurations(t *testing.T) {
	url := serve(t)
	for text, want := range map[string]string{
		"network.size 1":                      `key "simulation.endtime" is missing`,
		"network.size 1\nsimulation.cycles 2": `the cycle engine runs in one process`,
		"network.size 1\nsimulation.endtime 2\nprotocol.n SimpleNewscast\n" +
			"protocol.n.cache 3": `a protocol has direct access to other nodes`,
	} {
		_, err := Run(context.Background(), Options{URL: url, Simulation: "wrong",
			Configuration: text, Processes: 2, Command: command, Restarts: 5})
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %s", text, err, want)
		}
	}
	_, err := Run(context.Background(), Options{URL: url, Simulation: "two words", Processes: 1})
	if err == nil || !strings.Contains(err.Error(), `"two words": want a name of letters`) {
		t.Error(err)
	}
}

// TestLoadMoves runs a network with the form of a star. The first shard gets half of all events, so
// the other shards of the same process must move to the second process.
func TestLoadMoves(t *testing.T) {
	seed.NotUnderRace(t, "TestProcessesGiveTheSame exchanges as much")
	url := serve(t)
	o := Options{URL: url, Simulation: "star", Processes: 2, Balance: true, Command: command,
		Every: sim.Time(300 * time.Millisecond), Configuration: `network.size 16000
simulation.endtime 2s
protocol.l IdleProtocol
protocol.t UniformRandomTransport
protocol.t.mindelay 20ms
protocol.t.maxdelay 90ms
protocol.a AverageED
protocol.a.linkable l
protocol.a.transport t
protocol.a.step 1s
init.w WireStar
init.w.protocol l
init.v LinearDistribution
init.v.protocol a
init.v.max 100
init.x CDScheduler
init.x.protocol a
init.x.randstart
`}
	digest, _ := runAlone(t, o)
	r := run(t, o)
	if r.Digest != digest {
		t.Error("another result")
	}
	if r.Moved == 0 {
		t.Error("no shard has moved")
	}
}

func TestPartOfAnotherVersionIsRefused(t *testing.T) {
	err := Work(t.Context(), Part{Version: Version + 1}, nil)
	if err == nil || !strings.Contains(err.Error(), "this program knows version") {
		t.Error(err)
	}
}
