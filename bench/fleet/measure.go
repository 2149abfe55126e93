package fleet

import (
	"math/rand/v2"
	"slices"
	"time"

	"github.com/cloudprofiler/cloudprofiler/internal/virtual"
	"github.com/cloudprofiler/cloudprofiler/overlay/wire"
	"github.com/cloudprofiler/cloudprofiler/tscratio"
	"github.com/cloudprofiler/cloudprofiler/vnode"
)

const (
	physical_hz  = 2_600_000_000
	startReading = 1 << 40 // the physical counter at the beginning of the simulated time
)

func physical(t time.Duration) uint64 {
	return startReading + uint64(t)*(physical_hz/1_000_000)/1000
}

// clock is a node's virtual counter, and the truth about it.
type clock struct {
	described tscratio.Node
	counter   *vnode.Counter
	truth     *vnode.Truth
	lies      *nodeLies // nil: the node reports the truth
}

// The method start makes the node's counter, whose rate wanders from now on until the end of the
// measurements.
func (n *node) start(w *world) error {
	card, err := wire.ParseName(n.name)
	if err != nil {
		return err
	}
	shapes := []vnode.Shape{vnode.Steady, vnode.Sine, vnode.Walk, vnode.Temperature}
	config := virtual.Config(w.r, card.Node,
		virtual.Physical{Counter: physical(w.now), Hz: physical_hz},
		shapes[w.r.IntN(len(shapes))], 0.5, w.o.Measure+5*time.Second)
	if n.counter, err = vnode.NewCounter(config.Counter); err != nil {
		return err
	}
	if n.truth, err = vnode.NewTruth(config.Counter); err != nil {
		return err
	}
	n.described = tscratio.Node{Name: card.Node, Epoch: "1", Nominal_hz: physical_hz,
		Quantum_cycles: virtual.Quantum_cycles(config.Counter, 1)}
	if w.r.Float64() < w.o.Liars {
		n.lies = newLiar(w.r)
	}
	return nil
}

// pairMeasurements has the measurements of each pair of nodes. The key consists of the indices of
// the two nodes, the smaller first.
type pairMeasurements map[[2]int]*tscratio.Pair

// trainExchanges is the number of exchanges of a train. It is the same as in the product while a
// run is open.
const trainExchanges = 5

// trainPackets and trainBytes are what a train costs. In addition to its exchanges, a train has an
// exchange to warm up and one that closes it. A packet has 92 bytes (296 in the last exchange), and
// in addition 28 bytes of headers.
const (
	trainPackets = 2 * (trainExchanges + 2)
	trainBytes   = 2 * ((trainExchanges+1)*(92+28) + 296 + 28)
)

// leastDelay is the smallest delay of a packet.
const leastDelay = 20 * time.Microsecond

// packetDelay returns how long a packet takes.
func packetDelay(r *rand.Rand) time.Duration {
	return leastDelay + time.Duration(r.ExpFloat64()*10_000)
}

// The method train lets a node run a train with a peer, and adds the train to the argument all. A
// packet takes leastDelay, and in addition a random time of 10 µs on average. If one of the nodes
// lies, its stamps may be refused. This is not an error.
func (w *world) train(from, to *node, all pairMeasurements) error {
	if w.apart(from, to) {
		return nil
	}
	a, b, by := from, to, tscratio.StartedByA
	if b.index < a.index {
		a, b, by = b, a, tscratio.StartedByB
	}
	key := [2]int{a.index, b.index}
	p := all[key]
	if p == nil {
		var err error
		p, err = tscratio.NewPair(a.described, b.described, tscratio.DefaultAssumptions())
		if err != nil {
			return err
		}
		all[key] = p
	}
	t := tscratio.Train{By: by}
	at := w.now
	for range trainExchanges {
		var e tscratio.Exchange
		e.Sent = from.report(at, to, true)
		at += packetDelay(w.r)
		e.Received = to.report(at, from, false)
		at += 3 * time.Microsecond
		e.Answered = to.report(at, from, true)
		at += packetDelay(w.r)
		e.Returned = from.report(at, to, false)
		at += 2 * time.Microsecond
		if w.r.Float64() >= w.o.Loss {
			t.Exchanges = append(t.Exchanges, e)
		}
	}
	if len(t.Exchanges) == 0 {
		return nil
	}
	if err := p.Add(t); err != nil && from.lies == nil && to.lies == nil {
		return err
	}
	return nil
}

// probe makes a node run a train with one of its peers after the other, until the node is dead. A
// train begins every trainPeriod. The node's peers are its neighbours in the graph and the nodes to
// which its tuples travel.
func (n *node) probe(all pairMeasurements, failed func(error)) {
	w := n.w
	if n.graph == nil || w.measured {
		return
	}
	outs, _ := n.graph.Neighbours()
	slices.Sort(outs)
	var peers []*node
	for _, o := range outs {
		if other := w.byName[o]; other != nil && other.graph != nil {
			peers = append(peers, other)
		}
	}
	for _, other := range n.talks {
		if other.graph != nil && !slices.Contains(peers, other) {
			peers = append(peers, other)
		}
	}
	if len(peers) > 0 {
		if err := w.train(n, peers[n.turn%len(peers)], all); err != nil {
			failed(err)
		}
		n.turn++
	}
	w.after(w.trainPeriod(), func() { n.probe(all, failed) })
}

// trainEvery is the time between two trains of a node, by the default budget of a client.
const trainEvery = 500 * time.Millisecond

// trainPeriod returns the time between two trains of a node, by the budget of the options.
func (w *world) trainPeriod() time.Duration { return time.Duration(1e9 / w.o.Trains) }

// relatePairs evaluates pairs in both directions. It leaves out pairs that cannot be evaluated,
// such as those with too few constraints.
func relatePairs(all pairMeasurements) (relations []*tscratio.Relation) {
	for _, p := range all {
		p.Prune()
		var both []*tscratio.Relation
		for _, side := range []tscratio.Side{tscratio.SideA, tscratio.SideB} {
			if r, err := p.Relate(side, p.Declared.Wander); err == nil {
				both = append(both, r)
			}
		}
		if len(both) == 2 {
			relations = append(relations, both...)
		}
	}
	return relations
}
