package coordinator

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/cloudprofiler/cloudprofiler/asm"
	"github.com/cloudprofiler/cloudprofiler/control"
	"github.com/cloudprofiler/cloudprofiler/internal/leak"
	"github.com/cloudprofiler/cloudprofiler/internal/privileged"
	"github.com/cloudprofiler/cloudprofiler/internal/proof"
	"github.com/cloudprofiler/cloudprofiler/internal/seed"
	"github.com/cloudprofiler/cloudprofiler/internal/virtual"
	"github.com/cloudprofiler/cloudprofiler/minrtt"
	"github.com/cloudprofiler/cloudprofiler/tscclient"
	"github.com/cloudprofiler/cloudprofiler/tscratio"
	"github.com/cloudprofiler/cloudprofiler/vnode"
)

// jobVariable names an environment variable. If the variable is set, this test program is one
// process of a fleet, and the variable's value is the job of the process.
const jobVariable = "COORDINATOR_TEST_JOB"

func TestMain(m *testing.M) {
	if text := os.Getenv(jobVariable); text != "" {
		var j job
		err := json.Unmarshal([]byte(text), &j)
		if err == nil {
			err = j.run()
		}
		if err != nil {
			fmt.Fprintln(os.Stderr, "fleet process:", err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(leak.Main(m))
}

// job describes a process of a fleet. If Asker is set, the process passes the test's questions on
// to the server. If not, it is the client of the virtual node Node, or the server if Node has no
// name.
type job struct {
	Asker bool

	Address string // the server's address
	Key     string
	Public  string // client: the server's public key; server: the directory of clients' keys
	State   string // the server's state directory
	Graph   bool   // server: takes the fleet for a large one

	Node   tscratio.Node
	Listen netip.AddrPort
	Clocks []byte // a vnode.Config, encoded
	Cores  int

	Hostile *hostileJob // if set, this client is a hostile member
}

func faultsConfig() Config {
	c := DefaultConfig()
	c.Heartbeat, c.Dead = 300*time.Millisecond, 1200*time.Millisecond
	c.SweepEvery, c.Settle = 0, time.Hour
	c.FlushEvery = 300 * time.Millisecond
	c.Sweep = SweepOptions{
		Trains: 5, Exchanges: 20, Gap: 2 * time.Millisecond,
		Timeout: 60 * time.Millisecond, Attempts: 2,
	}
	return c
}

func (j job) run() error {
	key, err := control.ReadKey(j.Key)
	if err != nil {
		return err
	}
	if j.Node.Name == "" && !j.Asker {
		return j.serve(key)
	}
	server, err := control.ReadKey(j.Public)
	if err != nil {
		return err
	}
	if j.Asker {
		link, err := control.Dial(control.ClientConfig{
			Server: j.Address, Key: &key, Public: server.Public,
		})
		if err != nil {
			return err
		}
		return serveAsker(link)
	}
	if j.Hostile != nil {
		return newHostile(j, key, server).run()
	}
	notice, err := minrtt.OpenStepNotice()
	if err != nil {
		return err
	}
	clocks, err := vnode.ParseConfig(j.Clocks)
	if err != nil {
		return err
	}
	system := minrtt.SystemClock(asm.Counter, notice, func() (uint32, error) { return 1, nil })
	clock, err := virtual.Clock(clocks, system)
	if err != nil {
		return err
	}
	config := tscclient.DefaultConfig()
	config.Node, config.Clock, config.Listen = j.Node, clock, j.Listen
	config.Secret = minrtt.NewSecret()
	// Each pair must get several trains every few seconds, even on a busy machine.
	config.Budget = tscclient.Budget{TrainsPerSecond: 10}
	client, err := tscclient.Start(config)
	if err != nil {
		return err
	}
	if _, err := tscclient.Connect(client, tscclient.LinkConfig{
		Server: control.ClientConfig{Server: j.Address, Key: &key, Public: server.Public},
		Register: control.Register{
			Virtual: true, Machine: "this", Cores: j.Cores, Software: "test",
			Capabilities: []string{control.CanProbe},
		},
	}); err != nil {
		return err
	}
	select {}
}

func (j job) serve(key control.Key) error {
	log := slog.New(slog.NewTextHandler(os.Stderr, nil))
	store, err := OpenStore(filepath.Join(j.State, "state"), filepath.Join(j.State, "runs"))
	if err != nil {
		return err
	}
	link, err := control.Listen(control.ServerConfig{Address: j.Address, Key: &key, Log: log,
		Clients: func() ([]control.Key, error) { return control.ReadClientKeys(j.Public) }})
	if err != nil {
		return err
	}
	config := faultsConfig()
	if j.Graph {
		config.AllPairs, config.Degree, config.Settle = 3, 2, time.Second
	}
	s, err := NewServer(link, config, store, log)
	if err != nil {
		return err
	}
	return s.Run(context.Background())
}

// TestBarFaults runs ten virtual nodes in namespaces. At random moments of a sweep, it kills, stops
// or cuts off clients, or it kills the server. Later it brings them back.
func TestBarFaults(t *testing.T) {
	size := proof.Begin(t)
	bar := proof.Bar{
		Name:  "sweep of the living among 10 nodes with faults",
		Limit: 3, Unit: "× the normal time", Timing: true,
	}
	if err := privileged.Check(); err != nil {
		bar.Absent = err.Error()
		proof.Check(t, bar)
		return
	}
	faults := 3
	if size == proof.Full {
		faults = 50
	}
	proof.Check(t, bar.From(runFaults(t, faults)))
}

// runFaults causes faults during sweeps. For each of these sweeps it returns the time that the
// sweep took, divided by the median time of three sweeps without faults.
func runFaults(t *testing.T, faults int) (ratios []float64) {
	r := seed.Random(t)
	const nodes = 10
	f := newRealFleet(t, r, nodes)
	f.waitRegistered()
	var normal []time.Duration
	for range 3 {
		s := f.sweep(0, nil)
		if s.Complete != nodes*(nodes-1)/2 {
			t.Fatalf("without faults %d pairs are complete: %+v", s.Complete, s.Lost)
		}
		normal = append(normal, time.Duration(s.Took_ns))
	}
	slices.Sort(normal)
	f.check()
	checked := 0
	for n := range faults {
		c := f.clients[r.IntN(nodes)]
		name := c.job.Node.Name
		what := []string{"kill", "stop", "cut", "server"}[r.IntN(4)]
		if c.fault != "" && what != "server" {
			what = "server"
		}
		s := f.sweep(time.Duration(r.Int64N(int64(normal[1]))), func() bool {
			if what == "server" {
				kill(f.server)
				f.startServer()
				f.waitRegistered()
				return true
			}
			f.harmClient(slices.Index(f.clients, c), what)
			return false
		})
		if s == nil { // the server was killed, and only the sweep was lost: ask for it again
			name = "server"
			s = f.sweep(0, nil)
		}
		well := len(f.wellNodes())
		ratio := float64(s.Took_ns) / float64(normal[1])
		t.Logf("fault %d: %s %s; %d of %d pairs in %.2f of the normal time",
			n, what, name, s.Complete, s.Pairs, ratio)
		ratios = append(ratios, ratio)
		f.wantNamed(s)
		if living := well * (well - 1) / 2; s.Complete < living {
			t.Errorf("%d pairs are complete, the living have %d: %+v", s.Complete, living, s.Lost)
		}
		checked += f.check()
		for i, c := range f.clients {
			if c.fault != "" && r.IntN(2) == 0 {
				f.healClient(i)
			}
		}
		f.waitRegistered()
	}
	for i, c := range f.clients {
		if c.fault != "" {
			f.healClient(i)
		}
	}
	f.waitRegistered()
	if s := f.sweep(0, nil); s.Complete != nodes*(nodes-1)/2 {
		t.Errorf("after all faults %d pairs are complete: %+v", s.Complete, s.Lost)
	}
	checked += f.check()
	t.Logf("%d bounds were compared with the truth", checked)
	if checked < faults*nodes {
		t.Errorf("only %d bounds were compared with the truth", checked)
	}
	return ratios
}

// harmClient does one of three things to a client: it kills, stops or cuts off the client.
func (f *realFleet) harmClient(i int, what string) {
	f.t.Helper()
	c := f.clients[i]
	switch what {
	case "kill":
		kill(c.process)
	case "stop":
		c.process.Process.Signal(syscall.SIGSTOP)
	case "cut":
		if err := f.star.Cut(i, true); err != nil {
			f.t.Fatal(err)
		}
	}
	c.fault = what
}

// healClient undoes what harm did.
func (f *realFleet) healClient(i int) {
	f.t.Helper()
	c := f.clients[i]
	switch c.fault {
	case "kill":
		f.startClient(i)
	case "stop":
		c.process.Process.Signal(syscall.SIGCONT)
	case "cut":
		if err := f.star.Cut(i, false); err != nil {
			f.t.Fatal(err)
		}
	}
	c.fault = ""
}

// wantNamed checks that the status lists every lost pair with a reason, and that at least one node
// of each lost pair has a fault.
func (f *realFleet) wantNamed(s *SweepStatus) {
	f.t.Helper()
	if s.Complete+len(s.Lost) != s.Pairs {
		f.t.Errorf("%d pairs, %d complete, %d lost by name", s.Pairs, s.Complete, len(s.Lost))
	}
	well := f.wellNodes()
	for _, l := range s.Lost {
		if slices.Contains(well, l.A) && slices.Contains(well, l.B) {
			f.t.Errorf("%s with %s is lost, and neither has a fault: %s", l.A, l.B, l.Why)
		}
		if strings.TrimSpace(l.Why) == "" {
			f.t.Errorf("%s with %s is lost for no reason", l.A, l.B)
		}
	}
}
