package fleet

import (
	"container/heap"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"
	"time"

	"github.com/cloudprofiler/cloudprofiler/overlay"
	"github.com/cloudprofiler/cloudprofiler/overlay/wire"
)

// event is something that happens at a moment of the simulated time.
type event struct {
	at time.Duration
	do func()
}

type events []event

func (e events) Len() int           { return len(e) }
func (e events) Less(i, j int) bool { return e[i].at < e[j].at }
func (e events) Swap(i, j int)      { e[i], e[j] = e[j], e[i] }
func (e *events) Push(x any)        { *e = append(*e, x.(event)) }
func (e *events) Pop() any {
	last := (*e)[len(*e)-1]
	*e = (*e)[:len(*e)-1]
	return last
}

// world is the simulated time and the network between nodes.
type world struct {
	r      *rand.Rand
	o      Options
	now    time.Duration
	events events
	nodes  []*node
	byName map[overlay.Name]*node

	measuring bool          // counters run from here on
	measured  bool          // no more trains
	from      time.Duration // when the nodes began to measure
	cut       bool          // the nodes with even indices cannot reach the others
	plain     bool          // nodes have no facts and no heats, and bytes are not counted

	tapeEvery       int    // each node whose index it divides has a tape; 0: none has
	messages, bytes uint64 // of the graph, since the counts were last cleared
}

func (w *world) after(d time.Duration, do func()) { heap.Push(&w.events, event{w.now + d, do}) }

// run lets simulated time pass.
func (w *world) run(d time.Duration) {
	end := w.now + d
	for len(w.events) > 0 && w.events[0].at <= end {
		e := heap.Pop(&w.events).(event)
		w.now = e.at
		e.do()
	}
	w.now = end
}

// node is a member of the graph, together with its counter.
type node struct {
	w     *world
	index int
	name  overlay.Name
	graph *overlay.Node // nil once the node is dead
	tape  *nodeTape     // nil: nothing is recorded
	wake  time.Duration // when the graph's next Tick comes; -1: never

	clock
	born, died time.Duration // died is 0 while the node lives
	toldAt     time.Duration // when it last got contacts
	talks      []*node       // nodes to which its tuples travel
	turn       int
}

// Send sends a message over the simulated network. It implements overlay.Transport.
func (n *node) Send(to overlay.Name, m overlay.Message) {
	w := n.w
	w.messages++
	if n.tape != nil {
		n.tape.sent++
	}
	if w.plain {
		// skip the encoding
	} else if b, err := wire.Encode(nil, m); err == nil {
		w.bytes += uint64(wire.Overhead(n.name) + len(b))
	}
	other := w.byName[to]
	if other == nil || w.apart(n, other) || w.r.Float64() < w.o.Loss {
		return
	}
	delay := time.Millisecond + time.Duration(w.r.Int64N(int64(20*time.Millisecond)))
	w.after(delay, func() {
		if other.graph != nil {
			if err := other.record(n.name, m); err != nil {
				other.tape = nil // it cannot be encoded, so nobody sends it
			}
			other.graph.Receive(w.now, n.name, m)
			other.watch()
		}
	})
}

// watch makes sure that the graph's next Tick comes in time.
func (n *node) watch() {
	at := max(n.graph.Next(), n.w.now+time.Millisecond)
	if n.wake >= 0 && n.wake <= at {
		return
	}
	n.wake = at
	n.w.after(at-n.w.now, func() {
		if n.wake == at && n.graph != nil {
			n.wake = -1
			n.record("", nil) // a Tick is always recorded
			n.graph.Tick(n.w.now)
			n.watch()
		}
	})
}

// apart reports whether two nodes cannot reach each other.
func (w *world) apart(a, b *node) bool { return w.cut && a.index%2 != b.index%2 }

// These are the same as in package coordinator: the number of contacts that a server gives to a
// node, and the time after which it gives others to a node without neighbours.
const (
	maxContacts = 8
	lonelyAgain = 5 * time.Second
)

// someContacts returns some other living nodes, as the server does. The server does not know
// which of them the node cannot reach.
func (w *world) someContacts(n *node) (names []overlay.Name) {
	living := w.living()
	for range min(maxContacts, len(living)) {
		other := living[w.r.IntN(len(living))]
		if other != n && !slices.Contains(names, other.name) {
			names = append(names, other.name)
		}
	}
	return names
}

// helpLonely gives new contacts to nodes without neighbours, as the server does.
func (w *world) helpLonely() {
	for _, n := range w.living() {
		outs, _ := n.graph.Neighbours()
		if len(outs) == 0 && w.now-n.toldAt >= lonelyAgain {
			n.graph.Meet(w.now, w.someContacts(n))
			n.toldAt = w.now
			n.watch()
		}
	}
}

// The method join adds a node, which joins the graph through some living nodes. It has as many
// facts as a real node with one channel.
func (w *world) join() error {
	i := len(w.nodes)
	n := &node{w: w, index: i, wake: -1, born: w.now}
	ip := netip.AddrFrom4([4]byte{10, byte(i >> 16), byte(i >> 8), byte(i)})
	address := netip.AddrPortFrom(ip, 7342)
	identity, err := wire.NewIdentity(fmt.Sprintf("n%05d", i), address)
	if err != nil {
		return err
	}
	n.name = identity.Name
	if w.measuring {
		if err := n.start(w); err != nil {
			return err
		}
	}
	var contacts []overlay.Name
	if w.plain && i > 0 {
		contacts = []overlay.Name{w.nodes[w.r.IntN(i)].name} // none is dead
	} else {
		contacts, n.toldAt = w.someContacts(n), w.now
	}
	seed := w.r.Uint64()
	config := overlay.Config{Name: n.name, Degree: w.o.Degree, Contacts: contacts}
	if w.tapeEvery > 0 && i%w.tapeEvery == 0 && !w.measuring {
		n.tape = &nodeTape{config: config, seed: seed, born: w.now}
	}
	config.Transport, config.Random = n, rand.New(rand.NewPCG(seed, 0))
	n.graph, err = overlay.New(config)
	if err != nil {
		return err
	}
	facts := []overlay.Fact{"role=worker", overlay.Fact(fmt.Sprintf("channel=parser#%d/end", i))}
	heats := []overlay.Heat{{By: "bound", Value: 20_000 + w.r.Uint64N(5000)},
		{By: "ring-fill", Value: w.r.Uint64N(30)}}
	if w.plain {
		facts, heats = nil, nil
	}
	if n.tape != nil {
		n.tape.facts, n.tape.heats = facts, heats
	}
	if err := errors.Join(n.graph.SetFacts(facts...),
		n.graph.SetHeats(w.now, heats...)); err != nil {
		return err
	}
	w.nodes = append(w.nodes, n)
	w.byName[n.name] = n
	n.graph.Tick(w.now)
	n.watch()
	return nil
}

func (w *world) living() (all []*node) {
	for _, n := range w.nodes {
		if n.graph != nil {
			all = append(all, n)
		}
	}
	return all
}

// The method grow lets nodes join in groups, until the fleet is complete. A group has at most a
// quarter as many nodes as the present fleet, but at least one node.
func (w *world) grow() error {
	for len(w.nodes) < w.o.Nodes {
		for range max(1, min(len(w.nodes)/4, w.o.Nodes-len(w.nodes))) {
			if err := w.join(); err != nil {
				return err
			}
		}
		w.run(500 * time.Millisecond)
	}
	w.run(20 * time.Second)
	return nil
}

// whole reports whether all living nodes can be reached from one of them along the edges of the
// graph.
func (w *world) whole() bool {
	living := w.living()
	if len(living) == 0 {
		return true
	}
	seen := map[*node]bool{living[0]: true}
	for next := living[:1:1]; len(next) > 0; next = next[1:] {
		outs, _ := next[0].graph.Neighbours()
		for _, name := range outs {
			if n := w.byName[name]; n != nil && n.graph != nil && !seen[n] {
				seen[n] = true
				next = append(next, n)
			}
		}
	}
	return len(seen) == len(living)
}

// crossingAfterCut is the smallest share of edges from one former half to the other with which the
// halves count as joined. In a fleet that was never cut, that share is one half.
const crossingAfterCut = 0.25

// isJoined reports whether two halves of the fleet are one graph again. Each half alone is regular,
// and two edges between the halves suffice to make the graph whole. So isJoined also demands that
// many edges lead from one half to the other.
func (w *world) isJoined() bool {
	if w.irregular() > 0 || !w.whole() {
		return false
	}
	crossing, all := 0, 0
	for _, n := range w.living() {
		outs, _ := n.graph.Neighbours()
		for _, name := range outs {
			if all++; w.byName[name].index%2 != n.index%2 {
				crossing++
			}
		}
	}
	return float64(crossing) >= crossingAfterCut*float64(all)
}

// The method irregular counts the living nodes whose number of neighbours is not the wanted one, or
// that have dead neighbours.
func (w *world) irregular() (count int) {
	dead := func(name overlay.Name) bool { return w.byName[name].graph == nil }
	for _, n := range w.living() {
		outs, ins := n.graph.Neighbours()
		if len(outs) != w.o.Degree || len(ins) != w.o.Degree || slices.ContainsFunc(outs, dead) ||
			slices.ContainsFunc(ins, dead) {
			count++
		}
	}
	return count
}
