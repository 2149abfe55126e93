package tscclient

import (
	"bytes"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/cloudprofiler/cloudprofiler/control"
	"github.com/cloudprofiler/cloudprofiler/overlay"
	"github.com/cloudprofiler/cloudprofiler/overlay/wire"
)

// graphMembers are nodes that a server made members of the graph.
type graphMembers struct {
	t      *testing.T
	issuer *wire.Issuer
	links  map[string]*Link
	nodes  map[string]*testNode
	clock  *turnClock

	mu     sync.Mutex
	trains map[[2]string]int // successful trains, by prober and peer
}

func newMembers(t *testing.T, s *testServer, nodes, degree, pace int) *graphMembers {
	t.Helper()
	g := &graphMembers{t: t, links: map[string]*Link{}, nodes: map[string]*testNode{},
		trains: map[[2]string]int{}, clock: newTurnClock(t)}
	g.issuer, _ = wire.NewIssuer(bytes.Repeat([]byte{1}, wire.SeedBytes))
	var contacts []string
	for i := range nodes {
		name := string(rune('a' + i))
		n := startNode(t, name, func(c *Config) { c.Budget = Budget{TrainsPerSecond: 50} })
		n.Observe(func(o Outcome) {
			if o.Err == nil {
				g.mu.Lock()
				g.trains[[2]string{name, o.Peer.Node.Name}]++
				g.mu.Unlock()
			}
		})
		g.nodes[name] = n
		g.links[name] = connect(t, n, s.Address(), func(c *LinkConfig) {
			c.elapsed, c.pace = g.clock.elapsed(), pace
		})
		r := s.welcome()
		for r.Name != name { // on a busy machine, an earlier node may register again
			r = s.welcome()
		}
		s.order(uint64(i)+1, g.order(r.Graph, degree, contacts))
		expectMessage[*control.Done](s)
		s.order(uint64(i)+100, &control.Probing{
			Neighbours: true, Manner: testManner, Period_ns: int64(20 * time.Millisecond)})
		expectMessage[*control.Done](s)
		contacts = append(contacts, r.Graph)
	}
	return g
}

func (g *graphMembers) order(name string, degree int, contacts []string) *control.Graph {
	return &control.Graph{Degree: degree, Issuers: [][]byte{g.issuer.Public()},
		Signature: g.issuer.Sign(overlay.Name(name)), Contacts: contacts}
}

// paceFactor is how much faster than a turnClock the graph's periods pass in these tests.
const paceFactor = 4

// A turnClock is a clock that runs only while the process gets its turns on a processor. So nodes
// have as many turns to answer on a busy machine as on a quiet one.
type turnClock struct {
	mu   sync.Mutex
	now  time.Duration
	last time.Time // when the clock was last read
}

// maxTurn is the longest time between two readings that counts. Readings are more frequent, unless
// the process waits for its turn.
const maxTurn = 3 * time.Millisecond

// newTurnClock starts a clock. Until the test ends, somebody reads the clock every millisecond.
func newTurnClock(t *testing.T) *turnClock {
	c := &turnClock{last: time.Now()}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for t.Context().Err() == nil {
			c.read()
			time.Sleep(maxTurn / 3)
		}
	}()
	t.Cleanup(func() { <-ended })
	return c
}

func (c *turnClock) read() time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := time.Now()
	c.now += min(now.Sub(c.last), maxTurn)
	c.last = now
	return c.now
}

// elapsed returns a function that returns the time since this call of elapsed.
func (c *turnClock) elapsed() func() time.Duration {
	began := c.read()
	return func() time.Duration { return c.read() - began }
}

// maxWait is how long a test waits for nodes to find each other. It is long, because on a busy
// machine walks are late.
const maxWait = 3 * time.Minute

// wantProbing waits until each node has as many neighbours as the graph's degree, and probes all of
// them. Every neighbour must be a node of the test.
func (g *graphMembers) wantProbing(degree int) {
	g.t.Helper()
	var why string
	for end := time.Now().Add(maxWait); ; time.Sleep(20 * time.Millisecond) {
		g.mu.Lock()
		why = ""
		for name, l := range g.links {
			peers := l.graph.describedPeers()
			if len(peers) != degree {
				why = fmt.Sprintf("%s has %d neighbours", name, len(peers))
			}
			for _, p := range peers {
				if g.links[p.Node.Name] == nil || g.trains[[2]string{name, p.Node.Name}] == 0 {
					why = fmt.Sprintf("%s does not probe %s", name, p.Node.Name)
				}
			}
		}
		g.mu.Unlock()
		if why == "" {
			return
		}
		if time.Now().After(end) {
			g.t.Fatalf("after %v, %s", maxWait, why)
		}
	}
}

// orderAll gives all nodes an order like the one that follows a registration.
func (g *graphMembers) orderAll(degree int) {
	g.t.Helper()
	for _, l := range g.links {
		if err := l.graph.passOrder(g.order(string(l.graph.socket.Name()), degree,
			nil)); err != nil {
			g.t.Fatal(err)
		}
	}
}

// wantPeers waits until node a has two peers, b and c, that satisfy a condition.
func (g *graphMembers) wantPeers(what string, holds func(b, c Peer) bool) {
	g.t.Helper()
	for end := time.Now().Add(maxWait); ; time.Sleep(10 * time.Millisecond) {
		now := g.links["a"].graph.describedPeers()
		if len(now) == 2 && holds(now[0], now[1]) {
			return
		}
		if time.Now().After(end) {
			g.t.Fatalf("after %v, not %s: %+v", maxWait, what, now)
		}
	}
}

// Nodes that the server made members of the graph probe their neighbours. They go on while the
// server is away. When one of them dies or leaves, its neighbours find others.
func TestNeighboursAreProbedWithoutTheServer(t *testing.T) {
	if testing.Short() {
		t.Skip("nodes need a while to join a graph: make unit runs it")
	}
	t.Parallel() // it waits most of the time
	const degree = 2
	s := listen(t, "127.0.0.1:0", "server 1")
	g := newMembers(t, s, 6, degree, paceFactor)
	s.Close()
	g.wantProbing(degree)

	g.links["d"].stop() // as if the process had been killed
	delete(g.links, "d")
	g.wantProbing(degree)

	g.links["b"].Close()
	delete(g.links, "b")
	g.wantProbing(degree)
	for _, l := range g.links {
		g.mu.Lock()
		clear(g.trains)
		g.mu.Unlock()
		if c := l.graph.socket.Counts(); c.Refused > 0 {
			t.Errorf("%s refused %d datagrams: %s", l.graph.socket.Name(), c.Refused, c.Why)
		}
	}
	g.wantProbing(degree) // the trains have not ended
}

// If a node breaks the rules of the graph, the nodes that notice it tell the server. They do so
// although their list of neighbours does not change: the node is not on it.
func TestBlamedNodesAreNamed(t *testing.T) {
	t.Parallel() // it waits most of the time
	s := listen(t, "127.0.0.1:0", "server 1")
	defer s.Close()
	const degree = 2
	g := newMembers(t, s, 8, degree, paceFactor) // three of them at least are no neighbours of a
	g.wantProbing(degree)
	const tries = 3 // an edge may change just when a node is blamed
	var blamed []string
	for range tries {
		stranger, before := g.stranger("a", blamed)
		blamed = append(blamed, stranger)
		hostile := g.links[stranger].graph.socket
		for i := range uint64(overlay.ShunAfter) {
			hostile.Send(g.links["a"].graph.socket.Name(), overlay.Hop{ID: 1<<40 + i,
				Walk: overlay.Seek{Origin: hostile.Name(), ID: 1<<40 + i, Out: true,
					Mix: overlay.MaxMix + 1}})
		}
		for {
			m, _ := expectMessage[*control.Neighbours](s)
			want := control.Blamed{Name: stranger, Times: control.MaxBlamed}
			if !slices.Contains(m.Blamed, want) {
				continue
			}
			if slices.Sort(m.Names); slices.Equal(m.Names, before) {
				return
			}
			break
		}
	}
	t.Errorf("node a said nothing before its neighbours changed, %d times", tries)
}

// stranger returns a node that is no neighbour of the given one: if possible, one that is not in
// the list "but". It also returns the given node's outgoing neighbours, sorted.
func (g *graphMembers) stranger(name string, but []string) (stranger string, outs []string) {
	g.t.Helper()
	answer := make(chan []overlay.Name)
	l := g.links[name]
	l.graph.questions <- func() {
		out, in := l.graph.node.Neighbours()
		answer <- out
		answer <- in
	}
	for _, n := range <-answer {
		card, _ := wire.ParseName(n)
		outs = append(outs, card.Node)
	}
	near := append([]string{name}, outs...)
	for _, n := range <-answer {
		card, _ := wire.ParseName(n)
		near = append(near, card.Node)
	}
	slices.Sort(outs)
	for other := range g.links {
		if !slices.Contains(near, other) && (stranger == "" || slices.Contains(but, stranger)) {
			stranger = other
		}
	}
	return stranger, outs
}

// A node tells the server its neighbours. If its counter begins a new epoch, or the issuer of names
// is replaced, its neighbours probe it in the new epoch and with new keys.
func TestNeighboursFollowEpochsAndKeys(t *testing.T) {
	t.Parallel() // it waits most of the time
	const degree = 2
	s := listen(t, "127.0.0.1:0", "server 1")
	defer s.Close()
	g := newMembers(t, s, 3, degree, 1)
	for {
		if m, _ := expectMessage[*control.Neighbours](s); len(m.Names) == degree &&
			!slices.Contains(m.Names, "") {
			break
		}
	}
	g.wantProbing(degree)
	before := map[string]Peer{}
	for _, p := range g.links["a"].graph.describedPeers() {
		before[p.Node.Name] = p
	}
	if len(before["b"].Key.Bytes) == 0 || before["b"].Key == before["c"].Key ||
		before["b"].Key.Prober == g.links["c"].graph.describedPeers()[1].Key.Prober {
		t.Fatalf("keys %+v", before)
	}
	g.nodes["b"].epoch.Store("epoch 2 of b")
	if _, err := g.nodes["b"].Check(); err != nil {
		t.Fatal(err)
	}
	g.orderAll(degree)
	g.wantPeers("b in its second epoch", func(b, c Peer) bool {
		return b.Node.Epoch == "epoch 2 of b" && b.Key == before["b"].Key
	})
	g.issuer, _ = wire.NewIssuer(bytes.Repeat([]byte{2}, wire.SeedBytes))
	g.orderAll(degree)
	g.wantPeers("other keys", func(b, c Peer) bool {
		return b.Key != before["b"].Key && c.Key != before["c"].Key
	})
	g.mu.Lock()
	clear(g.trains)
	g.mu.Unlock()
	g.wantProbing(degree)
}
