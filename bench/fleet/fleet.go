package fleet

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"github.com/cloudprofiler/cloudprofiler/overlay"
	"github.com/cloudprofiler/cloudprofiler/tscratio"
)

// Options say what to simulate.
type Options struct {
	Nodes   int
	Degree  int           // neighbours that each node probes
	Talks   int           // nodes to which the tuples of each node travel
	Trains  float64       // the budget: how many trains each node begins in a second; 0: 2
	Measure time.Duration // how long nodes measure each other
	Churn   float64       // share of the nodes that die each minute; as many join
	Liars   float64       // share of the nodes that report false stamps
	Cut     time.Duration // how long two halves of the fleet cannot reach each other
	Killed  float64       // share of the nodes that die at once, in the middle of Measure
	Loss    float64       // share of messages and exchanges that are lost
	Pairs   int           // random pairs to ask for
	Queries int           // moments at which each pair is asked for
	Seed    uint64

	Progress func(step string)
}

// Result is what Run found.
type Result struct {
	Nodes     int
	Irregular int // nodes that lacked a neighbour at the end
	// Healed is the time from the deaths of the nodes in Killed until each living node had its full
	// number of neighbours, and all of these lived. It is 0 if no node was killed, and healLimit if
	// the graph did not recover.
	Healed time.Duration
	// Joined is the time from the end of the cut until the graph had recovered in the same way, and
	// the two halves were one graph (see isJoined). It is 0 if there was no cut, or if the graph
	// did not recover.
	Joined   time.Duration
	Measured int // pairs that were measured

	Queries   uint64 // bounds of random pairs
	Outside   uint64 // of these, bounds that do not contain the truth
	Unrelated uint64 // questions without an answer
	OutsideOf int    // pairs with such a bound

	Liars       int // living nodes that report false stamps
	Named       int // of these, nodes that the audit names
	NamedHonest int // other nodes that the audit names

	EdgeBound, RandomBound, TalkBound time.Duration // medians: see ask
	Hops                              float64       // mean length of a random pair's path

	// The following fields say what a node sends each second after the fleet has grown: messages
	// and bytes for the graph, and packets and bytes for trains.
	Messages, Bytes, TrainPackets, TrainBytes float64
	GraphCPU                                  time.Duration // CPU time of a node in a second

	// These are the same figures, but for a node in a fleet of SmallNodes nodes.
	SmallMessages, SmallBytes float64
	SmallCPU                  time.Duration

	// AloneCPU is the CPU time of a node that runs alone and gets the messages that it received in
	// the fleet. SmallAloneCPU is the same for a node of a small fleet.
	AloneCPU, SmallAloneCPU time.Duration
}

// SmallNodes is the size of the fleets whose cost for each node is compared with that of a large
// fleet.
const SmallNodes = 10

// Run simulates a fleet.
func Run(ctx context.Context, o Options) (r Result, err error) {
	if o.Trains == 0 {
		o.Trains = 1 / trainEvery.Seconds()
	}
	w := &world{r: rand.New(rand.NewPCG(o.Seed, 0)), o: o, byName: map[overlay.Name]*node{},
		tapeEvery: max(1, o.Nodes/nodesWithTape)}
	say := func(format string, args ...any) {
		if o.Progress != nil {
			o.Progress(fmt.Sprintf(format, args...))
		}
	}
	say("%d nodes join", o.Nodes)
	if err := w.grow(); err != nil {
		return r, err
	}
	for _, n := range w.nodes {
		for range o.Talks {
			if other := w.nodes[w.r.IntN(len(w.nodes))]; other != n {
				n.talks = append(n.talks, other)
			}
		}
	}
	r.Nodes = len(w.nodes)
	if err := r.costs(w, say); err != nil {
		return r, err
	}
	say("they measure each other")
	w.measuring, w.from = true, w.now
	for _, n := range w.nodes {
		if err := n.start(w); err != nil {
			return r, err
		}
	}
	all := pairMeasurements{}
	if err := w.measure(ctx, &r, all); err != nil {
		return r, err
	}
	r.Irregular, r.Measured = w.irregular(), len(all)
	say("%d pairs are related", len(all))
	closure, err := tscratio.NewClosure(relatePairs(all), tscratio.ThirdAgreed)
	if err != nil {
		return r, err
	}
	w.audit(&r, closure)
	return r, w.ask(ctx, &r, closure, all, say)
}

// The method costs notes what the graph costs each node: in this fleet, in small ones, and alone.
func (r *Result) costs(w *world, say func(string, ...any)) error {
	cost, err := costOf([]*world{w})
	if err != nil {
		return err
	}
	r.Messages, r.Bytes, r.GraphCPU = cost.messages, cost.bytes, cost.cpu
	say("fleets of %d nodes do the same", SmallNodes)
	small, err := smallCost(w.o)
	if err != nil {
		return err
	}
	r.SmallMessages, r.SmallBytes, r.SmallCPU = small.messages, small.bytes, small.cpu
	say("some nodes do the same alone")
	alone, err := playAll(cost.tapes, small.tapes)
	if err != nil {
		return err
	}
	r.AloneCPU, r.SmallAloneCPU = alone[0], alone[1]
	r.TrainPackets = trainPackets * w.o.Trains
	r.TrainBytes = trainBytes * w.o.Trains
	return nil
}

// measure lets the nodes measure each other, while nodes die and join, until the time is over and
// the graph has healed.
func (w *world) measure(ctx context.Context, r *Result, all pairMeasurements) error {
	from, o := w.from, &w.o
	var failed error
	begin := func(n *node) {
		w.after(time.Duration(w.r.Int64N(int64(w.trainPeriod()))),
			func() { n.probe(all, func(err error) { failed = errors.Join(failed, err) }) })
	}
	for _, n := range w.nodes {
		begin(n)
	}
	var killed time.Duration // when nodes were killed
	var joined time.Duration // when the halves of a cut fleet could reach each other again
	for deaths := 0.0; w.now < from+o.Measure; {
		if w.cut {
			joined = w.now // unless it stays cut
		}
		w.cut = w.cutAt(w.now)
		w.run(time.Second)
		w.helpLonely()
		if joined > 0 && !w.cut && r.Joined == 0 && w.isJoined() {
			r.Joined = w.now - joined
		}
		if o.Killed > 0 && killed == 0 && w.now >= from+o.Measure/2 {
			killed = w.now
			w.kill(o.Killed)
		}
		if killed > 0 && r.Healed == 0 && w.irregular() == 0 {
			r.Healed = w.now - killed
		}
		for deaths += o.Churn * float64(o.Nodes) / 60; deaths >= 1; deaths-- {
			if err := w.replaceOne(); err != nil {
				return err
			}
			begin(w.nodes[len(w.nodes)-1])
		}
		if err := errors.Join(failed, ctx.Err()); err != nil {
			return err
		}
	}
	w.measured = true
	for killed > 0 && r.Healed == 0 {
		w.run(time.Second)
		w.helpLonely()
		if w.irregular() == 0 || w.now-killed >= healLimit {
			r.Healed = w.now - killed
		}
	}
	return nil
}

// graphCost says how much a node sends for the graph in a second, and how much CPU time it uses for
// the graph.
type graphCost struct {
	messages, bytes float64
	cpu             time.Duration
	tapes           []*nodeTape // of some of the nodes
}

// quietTime is how long costOf counts.
const quietTime = time.Minute

// costOf measures the costs of a node in fleets that it simulates side by side. It first waits
// until the traffic that joining nodes cause is over. Then it counts for a time that is a multiple
// of all the periods at which nodes send. The CPU time includes what the simulation itself needs.
func costOf(fleets []*world) (c graphCost, err error) {
	const settle, step = 40 * time.Second, 10 * time.Millisecond
	for _, w := range fleets {
		w.run(settle)
	}
	began, err := cpuTime()
	if err != nil {
		return c, err
	}
	for _, w := range fleets {
		w.messages, w.bytes = 0, 0
		for _, t := range w.tapesOf() {
			t.from, t.sent = w.now, 0
		}
	}
	for range quietTime / step {
		for _, w := range fleets {
			w.run(step)
		}
	}
	ended, err := cpuTime()
	nodes := 0
	for _, w := range fleets {
		nodes += len(w.nodes)
		c.messages += float64(w.messages)
		c.bytes += float64(w.bytes)
	}
	for _, w := range fleets {
		c.tapes = append(c.tapes, w.tapesOf()...)
		for _, n := range w.nodes {
			n.tape = nil // it ends here
		}
	}
	all := quietTime.Seconds() * float64(nodes)
	c.messages, c.bytes = c.messages/all, c.bytes/all
	c.cpu = time.Duration(float64(ended-began) / all)
	return c, err
}

// smallCost returns the cost in small fleets, which together have as many nodes as the large fleet.
// So the simulation of a node has as many cache misses as in the large fleet.
func smallCost(o Options) (graphCost, error) {
	var fleets []*world
	for i := range max(1, o.Nodes/SmallNodes) {
		small := o
		small.Nodes = SmallNodes
		w := &world{r: rand.New(rand.NewPCG(o.Seed, 1+uint64(i))), o: small,
			byName: map[overlay.Name]*node{}}
		if i < nodesWithTape/SmallNodes {
			w.tapeEvery = 1
		}
		if err := w.grow(); err != nil {
			return graphCost{}, err
		}
		fleets = append(fleets, w)
	}
	return costOf(fleets)
}

// healLimit is how long Run waits until all nodes have all their neighbours again.
const healLimit = 2 * time.Minute

// kill lets a share of the living nodes die at once.
func (w *world) kill(share float64) {
	living := w.living()
	w.r.Shuffle(len(living), func(i, k int) { living[i], living[k] = living[k], living[i] })
	for _, n := range living[:int(share*float64(len(living)))] {
		n.die()
	}
}

// replaceOne lets a random node die, and another join.
func (w *world) replaceOne() error {
	living := w.living()
	living[w.r.IntN(len(living))].die()
	return w.join()
}

func (n *node) die() { n.graph, n.died = nil, n.w.now }

// cpuTime returns the CPU time that this process used so far.
func cpuTime() (time.Duration, error) {
	var u unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &u); err != nil {
		return 0, fmt.Errorf("read the CPU time of this process: %w", err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano()), nil
}

// The method audit counts the liars. It also counts those of them that the product names when it
// audits the relations of the fleet.
func (w *world) audit(r *Result, closure *tscratio.Closure) {
	found := closure.Audit(3)
	for _, n := range w.living() {
		named := slices.Equal(found.Accused, []string{n.described.Name}) ||
			slices.Contains(found.Liars, n.described.Name)
		switch {
		case n.lies != nil && named:
			r.Named++
		case named:
			r.NamedHonest++
		}
		if n.lies != nil {
			r.Liars++
		}
	}
}

// cutAt reports whether the two halves of the fleet cannot reach each other at a moment.
func (w *world) cutAt(at time.Duration) bool {
	half := w.from + w.o.Measure/2
	return at >= half-w.o.Cut/2 && at < half+w.o.Cut/2
}
