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
	Exchanges int // exchanges of the paper's method: each way before the job, and again after it

	// LoadBytes is the number of bytes that one node sends another each second while the job runs.
	LoadBytes int

	// Loopback puts all processes on the loopback interface. Without it, each node has a network
	// namespace of its own, if this process may make namespaces. That usually requires root.
	Loopback bool

	// Command is a command line that starts this program again. The started program calls Process.
	Command []string

	// Keep is the directory for the run and its page. Run makes this directory. If it is empty,
	// nothing is kept.
	Keep string

	// Scratch is the directory for logs and the run during the demonstration. If Scratch is empty,
	// the logs and the run are in the directory of the rings, in shared memory.
	Scratch string

	// Program is the name and version of this program, for the page.
	Program string

	// Progress is called before each step. It may be nil.
	Progress func(step string)

	// actors says on which nodes the instances of each operator run. nil: as in placement.yaml.
	actors map[string][]string

	// The following fields are for tests. With Brief set, sweeps are short.
	Brief   bool
	machine *machine      // the result of an earlier examination; nil: examine now
	spoil   func(*Result) // called before the logs are translated
	shared  string        // directory of shared memory; "": the machine's
}

// LastPoint is where a tuple ends. From this point, the window that counted the tuple travels on.
const LastPoint = "count/end"

// wander_ppm is the largest wander of the virtual nodes: how far the relative rate of two nodes
// moves from its mean within ±10 s. It is half of the wander that relations assume, so all
// relations are consistent.
const wander_ppm = 0.5

// measureAround is how long nodes measure each other before the job begins and after it ends.
// Without these measurements, bounds would be wider at the beginning and the end of the job.
const measureAround = 500 * time.Millisecond

// Result is what the demonstration found.
type Result struct {
	Nodes       []NodeFacts
	Namespaces  bool             // each node had its own namespace
	WhyLoopback error            // why the nodes could not have namespaces; nil: nothing failed
	NTP         bool             // chronyd was asked for its claims
	WhyNoNTP    error            // why chronyd was started but made no claims; or nil
	Answer      *analysis.Answer // the answer of "cprof analyze"
	Spans       []*Span          // in the order in which tuples pass them
	Wander      tscratio.Wander  // wander that is assumed of each pair

	Trains    int
	Exchanges int // number of exchanges in all trains that nodes started
	Stamps    int // number of stamps in these exchanges
	Kernel    int // the stamps that the kernel took
	Tuples    int
	Lost      int // tuples that did not arrive, and events that are in no log

	Paper Paper

	whole   *analysis.Answer // of the spans from each tuple's beginning
	jobFile []byte           // what "cprof place" needs to know
}

// Consistent reports whether every relation is consistent.
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
	Rate   float64       // rate of its counter relative to the physical one, in ppm; 0 is equal
	Shape  vnode.Shape   // shape of its wander
	Node   tscratio.Node // as described in the relations
	Clocks vnode.Config
}

// A demonstration contains the state of a demonstration while it runs.
type demonstration struct {
	o Options
	Result
	dir          string // directory of the rings
	scratch      string // directory of everything else; may be dir
	place        *nodePlace
	server       *process
	nodes        []*process // processes of the agents
	programs     []*process
	chrony       []*chronyDaemon // of the hub and the nodes; none without chronyd
	setups       []nodeSetup
	placement    *job.Placement
	transfers    map[[2]string][]tscratio.Elapsed // of tuples, by sending and receiving node
	soak         *Soak                            // nil: this is a demonstration and not a soak
	engine       Engine                           // nil: the job is examples/adstream
	engineResult *EngineResult                    // result of engine
}

// Run runs the demonstration. Before it returns, it removes everything that it made except
// Options.Keep.
func Run(ctx context.Context, o Options) (result *Result, err error) {
	if o.Progress == nil {
		o.Progress = func(string) {}
	}
	d := &demonstration{o: o}
	if err := d.runWithin(ctx, d.run); err != nil {
		return nil, err
	}
	return &d.Result, nil
}

// runWithin makes directories, calls the function run, which uses them, and removes everything that
// run left.
func (d *demonstration) runWithin(ctx context.Context,
	run func(context.Context) error) (err error) {
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
		if ctx.Err() != nil { // the errors of the stopped processes are noise
			err = context.Cause(ctx)
		}
	}()
	return run(ctx)
}

func (d *demonstration) stop() {
	if d.engine != nil {
		d.engine.Stop()
	}
	// Programs stop before the agents, because the agents drain the programs' rings. Agents stop
	// before the coordinator, because each agent signs off from the coordinator.
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
	if d.engine != nil {
		return d.answerEngine(ctx, run)
	}
	return d.answer(ctx, run)
}

// runsDirectory returns the directory in which the coordinator keeps runs.
func (d *demonstration) runsDirectory() string { return filepath.Join(d.scratch, "runs") }

func (d *demonstration) runPath() string { return filepath.Join(d.runsDirectory(), runName) }

//go:embed placement.yaml
var placementText []byte

// start starts the coordinator and the nodes.
func (d *demonstration) start(ctx context.Context, physical machine) error {
	placement, err := d.choosePlaces()
	if err != nil {
		return err
	}
	d.placement = placement
	temporary := filepath.Join(d.scratch, "tmp")
	if err := os.Mkdir(temporary, 0o700); err != nil {
		return fmt.Errorf("make a directory for temporary files: %w", err)
	}
	rings := filepath.Join(d.dir, "rings")
	s, err := d.setUp(physical, placement, rings)
	if err != nil {
		return err
	}
	chrony, err := d.startChrony(ctx, temporary)
	if err != nil {
		return err
	}
	d.o.Progress("starting the coordinator")
	d.server, err = d.place.start(ctx, netns.Hub, d.o.Command, temporary, setupMessage{Server: s})
	if err != nil {
		return fmt.Errorf("start the coordinator: %w", err)
	}
	for i := range d.setups {
		n := &d.setups[i]
		n.Server, n.Chrony = d.server.Server, chrony
		name := n.Node.Name
		d.o.Progress("starting node " + name)
		process, err := d.place.start(ctx, i, d.o.Command, temporary, setupMessage{Node: n})
		if err != nil {
			return fmt.Errorf("start node %s: %w", name, err)
		}
		d.nodes = append(d.nodes, process)
		if d.engine != nil {
			continue
		}
		program := setupMessage{Program: &programSetup{Node: name, Rings: rings,
			Placement: placement}}
		process, err = d.place.start(ctx, i, d.o.Command, temporary, program)
		if err != nil {
			return fmt.Errorf("start node %s's part of the job: %w", name, err)
		}
		d.programs = append(d.programs, process)
	}
	return d.startEngine(ctx, temporary)
}

// choosePlaces returns the job's placement. If it may make network namespaces, it also makes those
// in which the nodes run.
func (d *demonstration) choosePlaces() (*job.Placement, error) {
	placement, err := job.ParsePlacement(placementText)
	if err != nil {
		return nil, err
	}
	placement.Stream.Tuples, placement.Stream.PerSecond = d.o.Tuples, float64(d.o.PerSecond)
	if d.soak != nil { // windows as in the benchmark, and counts that do not stay
		placement.Stream.Window, placement.Stream.Keep = 10*time.Second, time.Minute
	}
	if d.o.actors != nil {
		placement.Actors = d.o.actors
	}
	if d.engine != nil {
		placement.Nodes = placement.Nodes[:d.engine.Nodes()]
	}
	placement.OnLoopback()
	d.place, d.WhyLoopback = newPlace(len(placement.Nodes), d.o.Loopback)
	d.Namespaces = d.place.star != nil
	if _, observed := d.engine.(Observed); observed && !d.Namespaces {
		return nil, fmt.Errorf("make network namespaces for the nodes: %w", d.WhyLoopback)
	}
	return placement, nil
}

// setUp makes the keys of the coordinator and of the nodes. For each of these processes it makes
// the setup, which the parent will send in a setupMessage. It also puts the addresses of the nodes
// into the placement.
func (d *demonstration) setUp(physical machine, placement *job.Placement, rings string) (
	s *serverSetup, err error) {
	newKey := func(name string, role control.Role) (k control.Key) {
		if err == nil {
			k, err = control.NewKey(name, role)
		}
		return k
	}
	hub := d.place.address(netns.Hub, netip.AddrFrom4([4]byte{127, 0, 0, 1}))
	s = &serverSetup{
		Address: netip.AddrPortFrom(hub, 0).String(),
		State:   filepath.Join(d.dir, "server"), Runs: d.runsDirectory(),
		Key: newKey("server", control.RoleServer), Admin: newKey("admin", control.RoleAdmin),
		Brief: d.o.Brief,
	}
	s.Clients = append(s.Clients, s.Admin.Halved())
	d.Nodes = virtualNodes(physical, placement, d.jobLasts()+clocksBeyond)
	for i, facts := range d.Nodes {
		at := &placement.Nodes[i]
		onLoopback, err := netip.ParseAddr(at.Address)
		if err != nil {
			return nil, err
		}
		address := d.place.address(i, onLoopback)
		at.Address = address.String()
		n := nodeSetup{
			Clocks: facts.Clocks, Node: facts.Node, Address: address, Number: at.Number,
			PhysicalQuantum_cycles: physical.Quantum_cycles, PhysicalCores: physical.Cores,
			Rings:        filepath.Join(rings, facts.Name),
			State:        filepath.Join(d.scratch, "state", facts.Name),
			ServerPublic: s.Key.Public, Key: newKey(facts.Name, control.RoleNode),
			Often: d.soak == nil,
		}
		s.Clients = append(s.Clients, n.Key.Halved())
		d.setups = append(d.setups, n)
	}
	return s, err
}

// startChrony starts chronyd for the hub and for each node, and returns the address at which each
// agent asks its own chronyd. It starts none if chronyd is not installed, or if nodes share an
// address.
func (d *demonstration) startChrony(
	ctx context.Context, temporary string,
) (address string, err error) {
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

// A machine describes the physical machine. The counters of the virtual nodes are computed from its
// counter.
type machine struct {
	virtual.Physical
	Quantum_cycles   uint64
	CoreSlack_cycles uint64
	Cores            []int // the cores within the core slack
}

// examine measures the physical counter. If other load disturbed the measurement, it measures
// again.
func examine() (machine, error) {
	const attempts = 5
	for range attempts {
		report := host.Examine(host.SystemOptions())
		if report.Verdict() == host.Unfit {
			break
		}
		known := report.Quantum != nil &&
			report.Slack != nil && report.Slack.Known() &&
			report.Frequency != nil && report.Frequency.Uncertainty_ppb() <= mostUncertain_ppb
		if !known {
			continue
		}
		return machine{
			Physical: virtual.Physical{
				Counter:     asm.Counter(),
				Realtime_ns: time.Now().UnixNano(),
				Hz:          report.Frequency.Lo_millihz / 1000,
			},
			Quantum_cycles:   report.Quantum.Step_cycles,
			CoreSlack_cycles: report.Slack.Slack_cycles,
			Cores:            report.Slack.Cores,
		}, nil
	}
	return machine{}, errors.New("examine this machine's counter: it is not fit to measure with, " +
		"or not quiet enough: cprof doctor says why")
}

// mostUncertain_ppb is the largest accepted uncertainty of the measured frequency of the machine's
// counter. Other programs that keep a core busy may delay readings of the clock by a few hundred
// µs, so on a busy machine the uncertainty can be this large.
const mostUncertain_ppb = 1e6

// virtualNodes makes the nodes: A, which is the reference, and the others. Their counters began at
// different times, and each counter runs at its own rate. The nodes' clocks show wrong times and
// are slewed.
//
// Each demonstration makes other counters for nodes of the same names, so the name of the epoch is
// random, too. By this name, readers refuse the relations of another demonstration.
func virtualNodes(
	physical machine, placement *job.Placement, last time.Duration,
) (nodes []NodeFacts) {
	var seed [16]byte
	rand.Read(seed[:])
	seed1, seed2 := binary.LittleEndian.Uint64(seed[:]), binary.LittleEndian.Uint64(seed[8:])
	r := mathrand.New(mathrand.NewPCG(seed1, seed2))
	shapes := []vnode.Shape{vnode.Sine, vnode.Walk, vnode.Temperature}
	epoch := fmt.Sprintf("demo-%016x", seed1)
	for i := range placement.Nodes {
		name, shape := placement.Nodes[i].Name, shapes[i%len(shapes)]
		c := virtual.Config(r, name, physical.Physical, shape, wander_ppm, last)
		rate := float64(c.Counter.Rate_2e40) / (1 << 40)
		nodes = append(nodes, NodeFacts{
			Name: name, Start: c.Counter.Start, Rate: rate * 1e6, Shape: shape, Clocks: c,
			Node: tscratio.Node{
				Name: name, Epoch: epoch, Nominal_hz: uint64(float64(physical.Hz) * (1 + rate)),
				Quantum_cycles: virtual.Quantum_cycles(c.Counter, physical.Quantum_cycles),
				// The core slack is a number of cycles, as the quantum is. So it is converted to
				// the virtual counter in the same way.
				CoreSlack_cycles: virtual.Quantum_cycles(c.Counter, physical.CoreSlack_cycles),
			},
		})
	}
	return nodes
}
