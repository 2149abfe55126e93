package demo

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math/big"
	mathrand "math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"github.com/cloudprofiler/cloudprofiler/asm"
	"github.com/cloudprofiler/cloudprofiler/host"
	"github.com/cloudprofiler/cloudprofiler/internal/virtual"
	"github.com/cloudprofiler/cloudprofiler/logstore"
	"github.com/cloudprofiler/cloudprofiler/tscratio"
	"github.com/cloudprofiler/cloudprofiler/vnode"
)

// Options say how large the demonstration is.
type Options struct {
	Tuples    int
	PerSecond int
	Exchanges int // before the job, and again after it

	// NodeCommand starts the process of a node: this program, with what makes it call Node.
	NodeCommand []string

	// Progress is told what is being done, and may be nil.
	Progress func(step string)
}

// wander_ppm is what the nodes' relative rate wanders by at most within ±10 s. Half of what is assumed: the relation of
// nodes whose owner knows them is consistent.
const wander_ppm = 0.5

// trainsPerSecond is how often the nodes exchange packets during the job.
const trainsPerSecond = 4

// around is for how long they do so before the job and after it: at the end of what is known a bound is wider.
const around = 500 * time.Millisecond

// Result is what the demonstration found.
type Result struct {
	Nodes      [2]NodeFacts
	Relation   *tscratio.Relation // from B into A, within windows
	Trains     int
	Exchanges  int // in these trains
	Unanswered int
	Stamps     int // in these exchanges
	Kernel     int // of them the kernel's
	Hops       []Hop
	Tuples     int
	Lost       int // tuples that did not come to the end of the way, or that a ring dropped

	Paper Paper

	CyclesPerSecond float64 // of A, for display: measured against this machine's clock
}

// Paper is what the paper's method says of the same nodes: two anchors, no wander.
type Paper struct {
	Exchanges    int
	RoundTrip    uint64   // smallest, in cycles of A
	E            *big.Rat // its bound, in cycles of A
	Apart_cycles uint64   // from anchor to anchor, in cycles of A
}

// HalfWidth_cycles is the paper's bound, made true for a wander of w: e + w·T/2.
func (p Paper) HalfWidth_cycles(w tscratio.Wander) float64 {
	e, _ := p.E.Float64()
	return e + w.PPM()/1e6*float64(p.Apart_cycles)/2
}

// NodeFacts is a virtual node.
type NodeFacts struct {
	Name   string
	Start  uint64        // its counter when the demonstration began
	Rate   float64       // of its counter, relative to the physical one, in parts per million off
	Shape  vnode.Shape   // of its wander
	Node   tscratio.Node // what the relation takes it for
	Clocks vnode.Config
}

// Run runs the demonstration. Everything that it makes is gone when it returns.
func Run(ctx context.Context, o Options) (result Result, err error) {
	progress := o.Progress
	if progress == nil {
		progress = func(string) {}
	}
	dir, err := makeDirectory()
	if err != nil {
		return result, err
	}
	defer func() {
		if ctx.Err() != nil { // what the nodes say of it is noise
			err = context.Cause(ctx)
		}
		err = errors.Join(err, os.RemoveAll(dir))
	}()

	progress("examining this machine's counter")
	physical, err := examine()
	if err != nil {
		return result, err
	}
	startTime, startCounter := time.Now(), asm.Counter()
	result.Nodes = virtualNodes(physical)
	var nodes [2]*node
	for i, facts := range result.Nodes {
		progress(fmt.Sprintf("starting node %s", facts.Name))
		nodes[i], err = startNode(ctx, o.NodeCommand, setup{
			Clocks: facts.Clocks, Node: facts.Node, PhysicalQuantum_cycles: physical.Quantum_cycles,
			Rings: filepath.Join(dir, facts.Name, "rings"), State: filepath.Join(dir, facts.Name, "state"),
		})
		if err != nil {
			return result, fmt.Errorf("start node %s: %w", facts.Name, err)
		}
		defer nodes[i].stop()
	}
	a, b := nodes[0], nodes[1]

	progress("exchanges before the job")
	before, err := a.link.ask(order{Do: orderProbe, Peer: b.Probes, Count: o.Exchanges})
	if err != nil {
		return result, err
	}
	if _, err := a.link.ask(order{Do: orderStart, Peer: b.Probes, PerSecond: trainsPerSecond}); err != nil {
		return result, err
	}
	if err := pause(ctx, around); err != nil {
		return result, err
	}
	progress(fmt.Sprintf("%d tuples from A to B and back", o.Tuples))
	if err := runJob(a, b, o); err != nil {
		return result, err
	}
	progress("exchanges after the job")
	if err := pause(ctx, around); err != nil {
		return result, err
	}
	during, err := a.link.ask(order{Do: orderStop})
	if err != nil {
		return result, err
	}
	after, err := a.link.ask(order{Do: orderProbe, Peer: b.Probes, Count: o.Exchanges})
	if err != nil {
		return result, err
	}
	passed := asm.Counter() - startCounter
	perSecond := float64(passed) / time.Since(startTime).Seconds()
	result.CyclesPerSecond = perSecond * (1 + result.Nodes[0].Rate/1e6)

	progress("relating the counters, joining tuples")
	if err := result.relate(before.Trains[0], during.Trains, after.Trains[0]); err != nil {
		return result, err
	}
	events, dropped, err := readLogs(a.logs, b.logs)
	if err != nil {
		return result, err
	}
	result.Tuples = o.Tuples
	if err := result.join(events); err != nil {
		return result, err
	}
	result.Lost += dropped
	return result, nil
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
}

// examine measures what is to be known of the physical counter.
func examine() (machine, error) {
	report := host.Examine(host.SystemOptions())
	if report.Verdict() == host.Unfit || report.Quantum == nil || report.Slack == nil || report.Frequency == nil {
		return machine{}, errors.New("examine this machine's counter: it is not fit to measure with, or not quiet enough: cprof doctor says why")
	}
	return machine{
		Physical: virtual.Physical{
			Counter: asm.Counter(), Realtime_ns: time.Now().UnixNano(), Hz: report.Frequency.Lo_millihz / 1000,
		},
		Quantum_cycles:   report.Quantum.Step_cycles,
		CoreSlack_cycles: report.Slack.Slack_cycles,
	}, nil
}

// virtualNodes are A, the reference, and B: two counters that began at different times and run at rates of their own,
// beside clocks that are off and slewed.
func virtualNodes(physical machine) [2]NodeFacts {
	var seed [16]byte
	rand.Read(seed[:])
	r := mathrand.New(mathrand.NewPCG(binary.LittleEndian.Uint64(seed[:]), binary.LittleEndian.Uint64(seed[8:])))
	var nodes [2]NodeFacts
	for i, shape := range []vnode.Shape{vnode.Sine, vnode.Walk} {
		name := string(rune('A' + i))
		c := virtual.Config(r, name, physical.Physical, shape, wander_ppm)
		nodes[i] = NodeFacts{
			Name: name, Start: c.Counter.Start, Rate: float64(c.Counter.Rate_2e40) / (1 << 40) * 1e6, Shape: shape, Clocks: c,
			Node: tscratio.Node{
				Name: name, Epoch: "demo", NominalHz: physical.Hz,
				QuantumCycles: virtual.Quantum_cycles(c.Counter, physical.Quantum_cycles),
				// A distance on the physical counter is one on the virtual counter as a step is.
				CoreSlackCycles: virtual.Quantum_cycles(c.Counter, physical.CoreSlack_cycles),
			},
		}
	}
	return nodes
}

// relate makes of the trains what is known of the two counters.
func (r *Result) relate(before train, during []train, after train) error {
	pair, err := tscratio.NewPair(r.Nodes[0].Node, r.Nodes[1].Node, tscratio.DefaultAssumptions())
	if err != nil {
		return err
	}
	for _, t := range append([]train{before, after}, during...) {
		if err := pair.Add(t.Best); err != nil {
			return err
		}
		r.Trains++
		r.Exchanges += len(t.User)
		r.Unanswered += t.Lost
		r.Stamps += t.Stamps
		r.Kernel += t.KernelStamps
	}
	if r.Relation, err = pair.Relate(tscratio.SideA, pair.Declared.Wander); err != nil {
		return err
	}
	paper, err := tscratio.PaperRelate(before.User, after.User)
	if err != nil {
		return err
	}
	r.Paper = Paper{
		Exchanges: len(before.User) + len(after.User), RoundTrip: smallestRoundTrip(before.User, after.User), E: paper.E(),
		Apart_cycles: after.User[0].Sent.Hi - before.User[0].Sent.Lo,
	}
	return nil
}

// makeDirectory makes a private directory, in shared memory where there is some.
func makeDirectory() (string, error) {
	parent := "/dev/shm"
	if _, err := os.Stat(parent); err != nil {
		parent = ""
	}
	dir, err := os.MkdirTemp(parent, "cloudprofiler-demo-")
	if err != nil {
		return "", fmt.Errorf("make a directory for the demonstration: %w", err)
	}
	return dir, nil
}

// node is the process of a virtual node, seen from its parent.
type node struct {
	ready
	logs  string
	link  *link
	cmd   *exec.Cmd
	input interface{ Close() error }
}

func startNode(ctx context.Context, command []string, s setup) (*node, error) {
	cmd := exec.CommandContext(ctx, command[0], command[1:]...)
	cmd.Stderr = os.Stderr
	input, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	output, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	n := &node{logs: s.logs(), link: newLink(output, input), cmd: cmd, input: input}
	if err := n.link.send(s); err != nil {
		n.stop()
		return nil, err
	}
	if err := n.link.in.Decode(&n.ready); err != nil {
		n.stop()
		return nil, fmt.Errorf("wait until it is ready: %w", err)
	}
	return n, nil
}

// stop ends the node, which ends by itself when its input does.
func (n *node) stop() {
	n.input.Close()
	n.cmd.Wait()
}

// runJob has the worker wait on B, then the source send on A.
func runJob(a, b *node, o Options) error {
	worker := make(chan error, 1)
	go func() {
		_, err := b.link.ask(order{Do: orderWork, Count: o.Tuples})
		worker <- err
	}()
	if _, err := a.link.ask(order{Do: orderSource, Peer: b.Tuples, Count: o.Tuples, PerSecond: o.PerSecond}); err != nil {
		b.stop()
		return errors.Join(err, <-worker)
	}
	return <-worker
}

func smallestRoundTrip(sets ...[]tscratio.Exchange) uint64 {
	least := uint64(1<<64 - 1)
	for _, set := range sets {
		for _, e := range set {
			least = min(least, e.RoundTripCycles())
		}
	}
	return least
}

// event is a record of a log: the physical counter is what is logged beside, for the truth alone.
type event struct {
	id, physical uint64
}

// readLogs reads the logs of all nodes, by channel, and counts the events that the logs say were dropped.
func readLogs(dirs ...string) (events map[string][]event, dropped int, err error) {
	events = map[string][]event{}
	for _, dir := range dirs {
		segments, err := logstore.Segments(dir)
		if err != nil {
			return nil, 0, err
		}
		// A log of this job is one segment: it is far from the length at which another is begun.
		for _, s := range segments {
			n, err := readLog(s, events)
			if err != nil {
				return nil, 0, fmt.Errorf("read log %q: %w", s.Path, err)
			}
			dropped += n
		}
	}
	return events, dropped, nil
}

func readLog(s logstore.Segment, events map[string][]event) (dropped int, err error) {
	r := logstore.ReadLog([]logstore.Segment{s})
	defer r.Close()
	name := s.Channel.String()
	for {
		b, err := r.Next()
		if err == io.EOF {
			break
		}
		if err != nil {
			return 0, err
		}
		for _, e := range b.Events {
			events[name] = append(events[name], event{id: e.ID, physical: e.Counter})
		}
	}
	report := r.Report()
	if !report.Whole() {
		return 0, errors.New("the log lacks rows")
	}
	for i := range report.Rows {
		for _, n := range report.Rows[i].Dropped {
			dropped += int(n)
		}
	}
	return dropped, nil
}
