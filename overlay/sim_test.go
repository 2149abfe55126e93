package overlay

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"
)

// A fleet is a simulation of many nodes and the network between them, in steps of a millisecond.
type fleet struct {
	t      testing.TB
	random *rand.Rand
	now    Time
	slots  [][]event // events of the next milliseconds, by time modulo the number of slots
	nodes  []*member
	byName map[Name]*member
	degree int

	loss     float64
	maxDelay int     // in ms; each message takes from 1 ms to maxDelay, so messages are reordered
	pauses   float64 // probability that a machine stands still after a message
	maxPause int     // for how long at most, in ms
	cut      bool
	sent     int
	apart    int // of these, steps of walks that look for other parts of the graph
	// traitor handles a message to a liar. If it returns true, the liar's Node does not get the
	// message.
	traitor func(to *member, from Name, m Message) bool
}

type event struct {
	to   *member
	from Name // the sender; empty: the event is a Tick
	m    Message
}

type member struct {
	fleet *fleet
	name  Name
	half  int
	node  *Node // nil once the node is dead
	wake  Time
	busy  Time // until then, the machine stands still
	sent  int

	second Time // the beginning of the second for which lied counts
	lied   int
}

const slotCount = 8192

func newFleet(t testing.TB, random *rand.Rand, degree int) *fleet {
	return &fleet{t: t, random: random, slots: make([][]event, slotCount),
		byName: map[Name]*member{}, degree: degree, maxDelay: 20}
}

// Send sends a message over the simulated network.
func (m *member) Send(to Name, msg Message) {
	f := m.fleet
	f.sent++
	m.sent++
	if h, ok := msg.(Hop); ok {
		if s, ok := h.Walk.(Seek); ok && s.Apart {
			f.apart++
		}
	}
	other := f.byName[to]
	if other == nil || f.loss > 0 && f.random.Float64() < f.loss ||
		f.cut && m.half != other.half {
		return
	}
	f.post(f.now+Time(1+f.random.IntN(f.maxDelay))*time.Millisecond, event{other, m.name, msg})
}

func (f *fleet) post(at Time, e event) {
	at = min(at, f.now+(slotCount-1)*time.Millisecond)
	i := int(at/time.Millisecond) % slotCount
	f.slots[i] = append(f.slots[i], e)
}

// matchPattern is the function Match in these tests: a pattern that ends with * matches each fact
// that begins with the text before the *.
func matchPattern(pattern, fact string) bool {
	start, any := strings.CutSuffix(pattern, "*")
	return any && strings.HasPrefix(fact, start) || pattern == fact
}

func (f *fleet) add(contacts ...Name) *member { return f.addNode(Config{Contacts: contacts}) }

// nodeName returns the name of the node with an index.
func nodeName(i int) Name { return Name(fmt.Sprintf("n%06d", i)) }

func (f *fleet) addNode(c Config) *member {
	m := &member{fleet: f, name: nodeName(len(f.nodes)), half: len(f.nodes) % 2}
	c.Name, c.Degree, c.Transport, c.Match = m.name, f.degree, m, matchPattern
	c.Random = rand.New(rand.NewPCG(f.random.Uint64(), 0))
	node, err := New(c)
	if err != nil {
		f.t.Fatal(err)
	}
	m.node = node
	f.nodes = append(f.nodes, m)
	f.byName[m.name] = m
	node.setTime(f.now)
	m.wake = neverTime
	f.watch(m)
	return m
}

// watch makes sure that the node's Tick is called in time.
func (f *fleet) watch(m *member) {
	at := max(m.node.Next(), f.now+time.Millisecond)
	at = min(at, f.now+(slotCount-1)*time.Millisecond)
	at = (at + time.Millisecond - 1) / time.Millisecond * time.Millisecond
	if at < m.wake {
		m.wake = at
		f.post(at, event{to: m})
	}
}

func (f *fleet) run(d time.Duration) {
	for end := f.now + d; f.now < end; {
		f.now += time.Millisecond
		slot := &f.slots[int(f.now/time.Millisecond)%slotCount]
		for i := 0; i < len(*slot); i++ {
			e := (*slot)[i]
			if e.to.node == nil {
				continue
			}
			if e.from == "" && e.to.wake != f.now {
				continue
			}
			if e.to.busy > f.now {
				if e.from == "" {
					e.to.wake = e.to.busy
				}
				f.post(e.to.busy, e)
				continue
			}
			if f.pauses > 0 && f.random.Float64() < f.pauses {
				e.to.busy = f.now + Time(1+f.random.IntN(f.maxPause))*time.Millisecond
			}
			if e.from == "" {
				e.to.wake = neverTime
				e.to.node.Tick(f.now)
			} else if f.traitor == nil || !f.traitor(e.to, e.from, e.m) {
				e.to.node.Receive(f.now, e.from, e.m)
			}
			if e.to.node != nil {
				f.watch(e.to)
			}
		}
		clear(*slot)
		*slot = (*slot)[:0]
	}
}

// growTo makes nodes join until the fleet has the given size. At most a quarter of the present
// number of nodes join at once.
func (f *fleet) growTo(n int) {
	for len(f.nodes) < n {
		for range max(1, min(len(f.nodes)/4, n-len(f.nodes))) {
			var contacts []Name
			if len(f.nodes) > 0 {
				contacts = []Name{f.nodes[f.random.IntN(len(f.nodes))].name}
			}
			f.add(contacts...)
		}
		f.run(500 * time.Millisecond)
	}
}

func (f *fleet) alive() (all []*member) {
	for _, m := range f.nodes {
		if m.node != nil {
			all = append(all, m)
		}
	}
	return all
}

// missingEdges counts the outgoing and incoming edges that living nodes lack, and the edges that
// only one end knows.
func (f *fleet) missingEdges() int {
	count := 0
	for _, m := range f.alive() {
		outs, ins := 0, 0
		for _, o := range m.node.outs {
			other := f.byName[o.peer]
			if o.unsettled().until == 0 && other.node != nil && other.node.in(m.name) != nil {
				outs++
			}
		}
		for _, i := range m.node.ins {
			other := f.byName[i.peer]
			if other.node != nil && other.node.out(m.name) != nil {
				ins++
			}
		}
		count += 2*f.degree - outs - ins
	}
	return count
}

// regularWithin runs the fleet until no edge is missing, and returns how long that took.
func (f *fleet) regularWithin(limit time.Duration) (took time.Duration, ok bool) {
	f.t.Helper()
	start := f.now
	for f.now-start < limit {
		f.run(500 * time.Millisecond)
		if f.missingEdges() == 0 {
			return f.now - start, true
		}
	}
	return limit, false
}

// countReached counts the nodes that can be reached along edges from the first living node.
func (f *fleet) countReached() int {
	alive := f.alive()
	for _, m := range alive {
		m.node.invariants(f.t)
	}
	seen := map[Name]bool{alive[0].name: true}
	queue := []*member{alive[0]}
	for len(queue) > 0 {
		m := queue[0]
		queue = queue[1:]
		for _, o := range m.node.outs {
			if other := f.byName[o.peer]; !seen[o.peer] && other.node != nil {
				seen[o.peer] = true
				queue = append(queue, other)
			}
		}
	}
	return len(seen)
}

// whole fails the test unless the graph becomes regular within the limit and all living nodes are
// then connected.
func (f *fleet) whole(limit time.Duration) time.Duration {
	f.t.Helper()
	took, ok := f.regularWithin(limit)
	if !ok {
		f.t.Fatalf("after %v %d ends of %d are missing", limit, f.missingEdges(),
			2*f.degree*len(f.alive()))
	}
	if n := f.countReached(); n != len(f.alive()) {
		f.t.Fatalf("%d of %d nodes can be reached", n, len(f.alive()))
	}
	return took
}
