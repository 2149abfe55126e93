package demo

import (
	"cmp"
	"context"
	"crypto/rand"
	_ "embed"
	"encoding/binary"
	"errors"
	"fmt"
	mathrand "math/rand/v2"
	"net/netip"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/cloudprofiler/cloudprofiler/agent"
	"github.com/cloudprofiler/cloudprofiler/analysis"
	"github.com/cloudprofiler/cloudprofiler/asm"
	"github.com/cloudprofiler/cloudprofiler/control"
	"github.com/cloudprofiler/cloudprofiler/examples/adstream/job"
	"github.com/cloudprofiler/cloudprofiler/host"
	"github.com/cloudprofiler/cloudprofiler/internal/netns"
	"github.com/cloudprofiler/cloudprofiler/internal/virtual"
	"github.com/cloudprofiler/cloudprofiler/ntp"
	"github.com/cloudprofiler/cloudprofiler/runs"
	"github.com/cloudprofiler/cloudprofiler/tscratio"
	"github.com/cloudprofiler/cloudprofiler/vnode"
)

// Options say how large the demonstration is.
type Options struct {
	Tuples    int
	PerSecond int
	Exchanges int // of the paper's method, each way before the job, and again after it

	// LoadBytes is what one node sends another in a second beside the job; 0: nothing.
	LoadBytes int

	// Loopback has all processes on the loopback interface. Else each node is in a network namespace of its own, where this process may make
	// some: as a rule that needs root.
	Loopback bool

	// Command starts a process: this program, with what makes it call Process.
	Command []string

	// Keep is a directory that is to be made and to hold the run, with its page. "": nothing is kept.
	Keep string

	// Scratch is a directory in which logs and the run are while it goes on. "": beside the rings, in shared memory.
	Scratch string

	// Program is what the page says that it was made by.
	Program string

	// Progress is told what is being done, and may be nil.
	Progress func(step string)

	// For tests.
	brief   bool          // short sweeps
	machine *machine      // that was examined before; nil: it is examined now
	spoil   func(*Result) // is called before the logs are translated
	shared  string        // shared memory; "": the machine's
}

// LastPoint is where a tuple ends: a window that counted it goes on.
const LastPoint = "count/end"

// wander_ppm is what the relative rate of two nodes wanders by at most within ±10 s. Half of what is assumed: the relation of
// nodes whose owner knows them is consistent.
const wander_ppm = 0.5

// around is for how long trains go on before the job and after it: at the end of what is known a bound is wider.
const around = 500 * time.Millisecond

// Result is what the demonstration found.
type Result struct {
	Nodes       []NodeFacts
	Namespaces  bool             // each node had one of its own
	WhyLoopback error            // why they had not, though they were to; nil: it was as asked for
	NTP         bool             // chronyd was asked what it claims
	WhyNoNTP    error            // why there are no claims of chronyd, though it is installed; nil: it is not, or there are
	Answer      *analysis.Answer // what "cprof analyze" says of the run
	Hops        []*Hop           // in the order in which tuples pass them
	Wander      tscratio.Wander  // that is assumed of each pair

	Trains    int
	Exchanges int // in all trains that nodes started
	Stamps    int // in these exchanges
	Kernel    int // of them the kernel's
	Tuples    int
	Lost      int // tuples that did not arrive, and events that are in no log

	Paper Paper
}

// Consistent says whether every relation is.
func (r *Result) Consistent() bool {
	for _, p := range r.Answer.Pairs {
		if p.Verdict != tscratio.Consistent.String() {
			return false
		}
	}
	return len(r.Answer.Pairs) == len(r.Nodes)*(len(r.Nodes)-1)/2
}

// NodeFacts is a virtual node.
type NodeFacts struct {
	Name   string
	Start  uint64        // its counter when the demonstration began
	Rate   float64       // of its counter, relative to the physical one, in parts per million off
	Shape  vnode.Shape   // of its wander
	Node   tscratio.Node // what the relations take it for
	Clocks vnode.Config
}

// demonstration is one that is under way.
type demonstration struct {
	o Options
	Result
	dir      string // of the rings
	scratch  string // of all else; may be dir
	place    *place
	server   *process
	nodes    []*process // agents
	programs []*process
	chrony   []*chronyDaemon // the hub's and the nodes'; none where it is not installed
	setups   []nodeSetup
	soak     *Soak // nil: a demonstration
}

// Run runs the demonstration. Everything that it makes is gone when it returns, but for Options.Keep.
func Run(ctx context.Context, o Options) (result *Result, err error) {
	if o.Progress == nil {
		o.Progress = func(string) {}
	}
	d := &demonstration{o: o}
	if err := d.within(ctx, d.run); err != nil {
		return nil, err
	}
	return &d.Result, nil
}

// within calls run with directories for it, and takes everything away that it leaves.
func (d *demonstration) within(ctx context.Context, run func(context.Context) error) (err error) {
	shared, err := makeDirectory(cmp.Or(d.o.shared, sharedMemory()))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, shared.remove()) }()
	d.dir, d.scratch = shared.path, shared.path
	if d.o.Scratch != "" {
		scratch, err := makeDirectory(d.o.Scratch)
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, scratch.remove()) }()
		d.scratch = scratch.path
	}
	defer func() {
		d.stop()
		if ctx.Err() != nil { // what the processes say of it is noise
			err = context.Cause(ctx)
		}
	}()
	return run(ctx)
}

func (d *demonstration) stop() {
	// Programs first, as the agents drain them, and the nodes before the coordinator, to which each says farewell.
	for _, some := range [][]*process{d.programs, d.nodes} {
		var stopping sync.WaitGroup
		for _, p := range some {
			stopping.Go(p.stop)
		}
		stopping.Wait()
	}
	if d.server != nil {
		d.server.stop()
	}
	for _, c := range d.chrony {
		c.stop()
	}
	if d.place != nil {
		d.place.close()
	}
}

func (d *demonstration) run(ctx context.Context) error {
	d.o.Progress("examining this machine's counter")
	physical := d.o.machine
	if physical == nil {
		m, err := examine()
		if err != nil {
			return err
		}
		physical = &m
	}
	if err := d.start(ctx, *physical); err != nil {
		return err
	}
	if err := d.measure(ctx); err != nil {
		return err
	}
	d.o.Progress("reading what the nodes logged")
	if d.o.spoil != nil {
		d.o.spoil(&d.Result)
	}
	if err := d.translate(); err != nil {
		return err
	}
	run, err := runs.Open(d.runPath())
	if err != nil {
		return err
	}
	defer run.Close()
	if d.soak != nil {
		return d.answerSoak(ctx, run)
	}
	return d.answer(ctx, run)
}

// runs is where the coordinator keeps runs.
func (d *demonstration) runs() string { return filepath.Join(d.scratch, "runs") }

func (d *demonstration) runPath() string { return filepath.Join(d.runs(), runName) }

//go:embed placement.yaml
var placementText []byte

// start starts the coordinator and the nodes.
func (d *demonstration) start(ctx context.Context, physical machine) (err error) {
	placement, err := job.ParsePlacement(placementText)
	if err != nil {
		return err
	}
	placement.Stream.Tuples, placement.Stream.PerSecond = d.o.Tuples, float64(d.o.PerSecond)
	if d.soak != nil { // the benchmark's own window, and what is stored does not fill memory
		placement.Stream.Window, placement.Stream.Keep = 10*time.Second, time.Minute
	}
	placement.OnLoopback()
	d.place, d.WhyLoopback = newPlace(len(placement.Nodes), d.o.Loopback)
	d.Namespaces = d.place.star != nil
	temporary := filepath.Join(d.scratch, "tmp")
	if err := os.Mkdir(temporary, 0o700); err != nil {
		return fmt.Errorf("make a directory for temporary files: %w", err)
	}
	newKey := func(name string, role control.Role) (k control.Key) {
		if err == nil {
			k, err = control.NewKey(name, role)
		}
		return k
	}
	s := &serverSetup{
		Address: netip.AddrPortFrom(d.place.address(netns.Hub, netip.AddrFrom4([4]byte{127, 0, 0, 1})), 0).String(),
		State:   filepath.Join(d.dir, "server"), Runs: d.runs(),
		Key: newKey("server", control.RoleServer), Admin: newKey("admin", control.RoleAdmin), Brief: d.o.brief,
	}
	s.Clients = append(s.Clients, s.Admin.Halved())
	rings := filepath.Join(d.dir, "rings")
	d.Nodes = virtualNodes(physical, placement, d.jobLasts()+clocksBeyond)
	for i, facts := range d.Nodes {
		at := &placement.Nodes[i]
		onLoopback, parseErr := netip.ParseAddr(at.Address)
		if parseErr != nil {
			return parseErr
		}
		address := d.place.address(i, onLoopback)
		at.Address = address.String()
		n := nodeSetup{
			Clocks: facts.Clocks, Node: facts.Node, Address: address, Number: at.Number,
			PhysicalQuantum_cycles: physical.Quantum_cycles, PhysicalCores: physical.Cores,
			Rings: filepath.Join(rings, facts.Name), State: filepath.Join(d.scratch, "state", facts.Name),
			ServerPublic: s.Key.Public, Key: newKey(facts.Name, control.RoleNode), Often: d.soak == nil,
		}
		s.Clients = append(s.Clients, n.Key.Halved())
		d.setups = append(d.setups, n)
	}
	if err != nil {
		return err
	}
	chrony, err := d.startChrony(ctx, temporary)
	if err != nil {
		return err
	}
	d.o.Progress("starting the coordinator")
	if d.server, err = d.place.start(ctx, netns.Hub, d.o.Command, temporary, setup{Server: s}); err != nil {
		return fmt.Errorf("start the coordinator: %w", err)
	}
	for i := range d.setups {
		n := &d.setups[i]
		n.Server, n.Chrony = d.server.Server, chrony
		d.o.Progress("starting node " + n.Node.Name)
		process, err := d.place.start(ctx, i, d.o.Command, temporary, setup{Node: n})
		if err != nil {
			return fmt.Errorf("start node %s: %w", n.Node.Name, err)
		}
		d.nodes = append(d.nodes, process)
		name := n.Node.Name
		process, err = d.place.start(ctx, i, d.o.Command, temporary, setup{Program: &programSetup{Node: name, Rings: rings, Placement: placement}})
		if err != nil {
			return fmt.Errorf("start node %s's part of the job: %w", name, err)
		}
		d.programs = append(d.programs, process)
	}
	return nil
}

// startChrony starts chronyd for the hub and for each node, where it is installed and each has an address of its own to be asked at. It returns where
// agents ask theirs.
func (d *demonstration) startChrony(ctx context.Context, temporary string) (address string, err error) {
	path := findChrony()
	if path == "" || !d.Namespaces {
		return agent.ChronyOff, nil
	}
	for end := netns.Hub; end < len(d.setups); end++ {
		c, err := d.place.startChrony(ctx, path, end, temporary)
		if err != nil {
			return "", fmt.Errorf("start chronyd: %w", err)
		}
		d.chrony = append(d.chrony, c)
	}
	d.NTP = true
	return ntp.DefaultAddress, nil
}

func pause(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-time.After(d):
		return nil
	}
}

// machine is what the virtual nodes are made of.
type machine struct {
	virtual.Physical
	Quantum_cycles   uint64
	CoreSlack_cycles uint64
	Cores            []int // that agree as far as that
}

// examine measures what is to be known of the physical counter. Where other load disturbed it, it measures again.
func examine() (machine, error) {
	const attempts = 5
	for range attempts {
		report := host.Examine(host.SystemOptions())
		if report.Verdict() == host.Unfit {
			break
		}
		if report.Quantum == nil || report.Slack == nil || !report.Slack.Known() || report.Frequency == nil || report.Frequency.Uncertainty_ppb() > mostUncertain_ppb {
			continue
		}
		return machine{
			Physical: virtual.Physical{
				Counter: asm.Counter(), Realtime_ns: time.Now().UnixNano(), Hz: report.Frequency.Lo_millihz / 1000,
			},
			Quantum_cycles:   report.Quantum.Step_cycles,
			CoreSlack_cycles: report.Slack.Slack_cycles,
			Cores:            report.Slack.Cores,
		}, nil
	}
	return machine{}, errors.New("examine this machine's counter: it is not fit to measure with, or not quiet enough: cprof doctor says why")
}

// mostUncertain_ppb is a frequency from which virtual nodes can be made. Over the time of an examination it is some hundred µs, by which a core that
// others had would be taken to be off.
const mostUncertain_ppb = 1e6

// virtualNodes are A, the reference, and others: counters that began at different times and run at rates of their own,
// beside clocks that are off and slewed.
func virtualNodes(physical machine, placement *job.Placement, last time.Duration) (nodes []NodeFacts) {
	var seed [16]byte
	rand.Read(seed[:])
	r := mathrand.New(mathrand.NewPCG(binary.LittleEndian.Uint64(seed[:]), binary.LittleEndian.Uint64(seed[8:])))
	shapes := []vnode.Shape{vnode.Sine, vnode.Walk, vnode.Temperature}
	for i := range placement.Nodes {
		name, shape := placement.Nodes[i].Name, shapes[i%len(shapes)]
		c := virtual.Config(r, name, physical.Physical, shape, wander_ppm, last)
		rate := float64(c.Counter.Rate_2e40) / (1 << 40)
		nodes = append(nodes, NodeFacts{
			Name: name, Start: c.Counter.Start, Rate: rate * 1e6, Shape: shape, Clocks: c,
			Node: tscratio.Node{
				Name: name, Epoch: "demo", NominalHz: uint64(float64(physical.Hz) * (1 + rate)),
				QuantumCycles: virtual.Quantum_cycles(c.Counter, physical.Quantum_cycles),
				// A distance on the physical counter is one on the virtual counter as a step is.
				CoreSlackCycles: virtual.Quantum_cycles(c.Counter, physical.CoreSlack_cycles),
			},
		})
	}
	return nodes
}
