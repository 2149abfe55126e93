package tscclient

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cloudprofiler/cloudprofiler/minrtt"
	"github.com/cloudprofiler/cloudprofiler/overlay"
	"github.com/cloudprofiler/cloudprofiler/overlay/wire"
	"github.com/cloudprofiler/cloudprofiler/tscratio"
)

// findRepeatedly repeats a search until it gets the wanted answer. A single search may fail,
// because a liar or a lost datagram can end its walk.
func (g *graphMembers) findRepeatedly(l *Link, pattern string, want func(Finding) bool) Finding {
	g.t.Helper()
	for end := time.Now().Add(2 * time.Minute); ; {
		f, err := l.Find(g.t.Context(), pattern)
		if err != nil {
			g.t.Fatal(err)
		}
		if want(f) {
			return f
		}
		if f.Node != "" {
			g.t.Fatalf("find %q: %+v", pattern, f)
		}
		if time.Now().After(end) {
			g.t.Fatalf("find %q: after two minutes still %+v", pattern, f)
		}
	}
}

// lyingMember is a member of the graph with edges like any other member. But it answers every
// search falsely: it says that another node, the victim, has what the search looks for.
type lyingMember struct {
	socket *wire.Socket
	node   *overlay.Node
	victim overlay.Name
	lies   atomic.Int64
	ended  chan struct{}
}

func (l *lyingMember) run(g *graphMembers) {
	defer close(l.ended)
	elapsed := g.clock.elapsed()
	incoming, hint := make(chan datagram), -time.Second
	go func() {
		defer close(incoming)
		for {
			from, m, err := l.socket.Receive()
			if err != nil {
				return
			}
			incoming <- datagram{from, m}
		}
	}()
	for {
		select {
		case d, ok := <-incoming:
			if !ok {
				return
			}
			l.take(paceFactor*elapsed(), d)
		case <-time.After(10 * time.Millisecond):
		}
		now := paceFactor * elapsed()
		l.node.Tick(now)
		if now-hint > time.Second {
			hint = now
			outs, _ := l.node.Neighbours()
			for _, o := range outs {
				l.socket.Send(o, overlay.Hint{Owner: l.victim, Levels: 1,
					Facts: []overlay.Fact{"role=queen", "role=king"}})
			}
		}
	}
}

func (l *lyingMember) take(now time.Duration, d datagram) {
	switch m := d.m.(type) {
	case overlay.Hop:
		if s, ok := m.Walk.(overlay.Search); ok {
			l.lies.Add(1)
			l.socket.Send(d.from, overlay.Ack{ID: m.ID, OK: true})
			l.socket.Send(s.Origin, overlay.Found{ID: rand.Uint64(), Search: s.ID, Name: l.victim,
				Visited: 1})
			return
		}
	case overlay.Verify:
		l.socket.Send(d.from, overlay.Ack{ID: m.ID, OK: true})
		return
	}
	if m, ok := d.m.(overlay.Message); ok {
		l.node.Receive(now, d.from, m)
	}
}

// addLiar makes a liar a member of the graph, until the test ends.
func (g *graphMembers) addLiar(degree int, contact, victim overlay.Name) *lyingMember {
	g.t.Helper()
	socket, err := wire.Listen("liar", loopback, loopback.Addr())
	if err != nil {
		g.t.Fatal(err)
	}
	if err := socket.Use([][]byte{g.issuer.Public()}, g.issuer.Sign(socket.Name())); err != nil {
		g.t.Fatal(err)
	}
	l := &lyingMember{socket: socket, victim: victim, ended: make(chan struct{})}
	l.node, err = overlay.New(overlay.Config{Name: socket.Name(), Degree: degree,
		Random: rand.New(rand.NewPCG(1, 0)), Transport: socket, Contacts: []overlay.Name{contact}})
	if err != nil {
		g.t.Fatal(err)
	}
	go l.run(g)
	g.t.Cleanup(func() {
		socket.Close()
		<-l.ended
	})
	return l
}

// 16 nodes find each other by facts, over real sockets and without the server. One more node lies:
// it answers every search.
func TestFind(t *testing.T) {
	if testing.Short() {
		t.Skip("nodes need a while to join a graph: make unit runs it")
	}
	t.Parallel() // it waits most of the time
	const nodes, degree = 16, 5
	s := listen(t, "127.0.0.1:0", "server 1")
	s.Close() // the server is away once it has made the nodes members of the graph
	g := &graphMembers{t: t, links: map[string]*Link{}, clock: newTurnClock(t)}
	g.issuer, _ = wire.NewIssuer(bytes.Repeat([]byte{1}, wire.SeedBytes))
	facts := make([]atomic.Pointer[[]string], nodes)
	heats := make([]atomic.Uint64, nodes)
	var links []*Link
	var contacts []string
	for i := range nodes {
		name := fmt.Sprintf("n%02d", i)
		facts[i].Store(&[]string{"role=worker", "node=" + name})
		l := connect(t, startNode(t, name, nil), s.Address(), func(c *LinkConfig) {
			c.elapsed, c.pace = g.clock.elapsed(), paceFactor
			c.Facts = func() []string { return *facts[i].Load() }
			c.Heats = func() map[string]uint64 {
				return map[string]uint64{"dropped": heats[i].Load()}
			}
		})
		if i == 0 { // it is not a member of a graph
			if f, err := l.Find(t.Context(), "node=n0?"); err != nil || f.Node != name {
				t.Errorf("alone: %+v, %v", f, err)
			}
			if f, err := l.Find(t.Context(), "node=n01"); !errors.Is(err, ErrNoGraph) {
				t.Errorf("alone: %+v, %v", f, err)
			}
			if h, err := l.Hot(t.Context(), "dropped"); !errors.Is(err, ErrNoGraph) {
				t.Errorf("alone: %+v, %v", h, err)
			}
		}
		own := string(l.graph.socket.Name())
		if err := l.graph.passOrder(g.order(own, degree, contacts)); err != nil {
			t.Fatal(err)
		}
		links, contacts = append(links, l), append(contacts, own)
		contacts = contacts[max(0, len(contacts)-8):]
	}
	if _, err := links[0].Find(t.Context(), strings.Repeat("a", overlay.MaxFact+1)); err == nil {
		t.Error("finds what is too long for a pattern")
	}
	for end := time.Now().Add(3 * time.Minute); slices.ContainsFunc(links, func(l *Link) bool {
		l.graph.mu.Lock()
		defer l.graph.mu.Unlock()
		return len(l.graph.outs) < 2
	}); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("after three minutes, nodes lack neighbours")
		}
	}
	none := g.findRepeatedly(links[3], "role=queen", func(f Finding) bool {
		return f.Node == "" && f.Missed < 0.01
	})
	t.Logf("nobody: %+v", none)

	victim := links[5].graph.socket.Name()
	l := g.addLiar(degree, links[7].graph.socket.Name(), victim)
	facts[11].Store(&[]string{"role=gold"})
	for _, i := range []int{0, 5, 11, 13, 15} {
		f := g.findRepeatedly(links[i], "role=g*", func(f Finding) bool {
			return f.Node == "n11" && f.Fact == "role=gold"
		})
		t.Logf("from %d: %+v", i, f)
	}
	for i := 0; l.lies.Load() < 10; i++ {
		f, err := links[i%nodes].Find(t.Context(), "role=?*n*")
		if err != nil || f.Node != "" || f.Fact != "" || f.Missed <= 0 || f.Missed > 1 {
			t.Fatalf("what only the liar says: %+v, %v", f, err)
		}
	}
	t.Logf("the liar lied %d times", l.lies.Load())

	// Whichever node asks, Hot finds the hottest node soon after it has become hot.
	heats[13].Store(5000)
	for _, i := range []int{0, 13, 15} {
		for end := time.Now().Add(3 * time.Minute); ; time.Sleep(100 * time.Millisecond) {
			hot, err := links[i].Hot(t.Context(), "dropped")
			if err != nil {
				t.Fatal(err)
			}
			if len(hot) > 0 && hot[0] == (HotNode{"n13", 5000}) {
				break
			}
			if time.Now().After(end) {
				t.Fatalf("from %d: after a minute the hottest are %+v", i, hot)
			}
		}
	}
	if hot, err := links[1].Hot(t.Context(), "nothing"); err != nil || len(hot) > 0 {
		t.Errorf("hot by nothing are %+v, %v", hot, err)
	}
	if _, err := links[1].Hot(t.Context(), ""); err == nil {
		t.Error("looks for heat by no kind")
	}
}

// A node's heat of the kind HeatBound is the largest plain bound of its recent trains.
func TestHeatOfBounds(t *testing.T) {
	c := startNode(t, "n", nil)
	g := &graphPart{link: &Link{client: c.Client}, plain: map[string]plainBound{}}
	hz := float64(c.Node().Nominal_hz)
	feel := func(peer string, err error, us ...float64) {
		o := Outcome{Err: err}
		o.Peer.Node.Name = peer
		for _, us := range us {
			o.Train.Exchanges = append(o.Train.Exchanges, minrtt.Exchange{Best: tscratio.Exchange{
				Sent: tscratio.At(1000), Returned: tscratio.At(1000 + uint64(us*1e-6*hz))}})
		}
		g.storeBound(o)
	}
	feel("a", nil, 90, 30, 50)
	feel("b", nil, 40, 41)
	feel("c", ErrClosed, 1000)
	feel("d", nil)
	if ns := g.largestBound(time.Now()); ns < 19_990 || ns > 20_010 {
		t.Errorf("largest bound %d ns, want 20,000", ns)
	}
	if ns := g.largestBound(time.Now().Add(2 * boundLife)); ns != 0 || len(g.plain) > 0 {
		t.Errorf("after a long time the largest bound is %d ns", ns)
	}
}

// A node with more or longer facts than the graph carries says so.
func TestFactsThatAreTooMany(t *testing.T) {
	facts := []string{"role=worker", strings.Repeat("x", overlay.MaxFact+1), "", "role=worker"}
	g := &graphPart{link: &Link{config: LinkConfig{Facts: func() []string { return facts }}}}
	got := g.ownFacts()
	if want := []overlay.Fact{"role=worker", Incomplete}; !slices.Equal(got, want) {
		t.Errorf("says %q, want %q", got, want)
	}
	facts = nil
	for i := range overlay.MaxFacts - 1 {
		facts = append(facts, fmt.Sprint("channel=", i))
	}
	if got := g.ownFacts(); len(got) != overlay.MaxFacts-1 || slices.Contains(got, Incomplete) {
		t.Errorf("says %q", got)
	}
	facts = append(facts, "channel=more")
	if got := g.ownFacts(); len(got) != overlay.MaxFacts || got[overlay.MaxFacts-1] != Incomplete {
		t.Errorf("says %q", got)
	}
}
