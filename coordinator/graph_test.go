package coordinator

import (
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cloudprofiler/cloudprofiler/control"
	"github.com/cloudprofiler/cloudprofiler/overlay"
	"github.com/cloudprofiler/cloudprofiler/overlay/wire"
	"github.com/cloudprofiler/cloudprofiler/runs"
	"github.com/cloudprofiler/cloudprofiler/tscratio"
)

// A fakeMember is a simulated client's part in the graph: a real overlay.Node on the simulated
// network.
type fakeMember struct {
	c      *fakeClient
	name   overlay.Name
	node   *overlay.Node // nil: the server has not told the client
	wake   time.Duration
	told   []*control.Graph
	report []string
	alone  bool // the network delivers nothing between it and other members

	connected []string
}

// asMember gives a client a name in the graph. The client registers with this name from now on.
func (c *fakeClient) asMember() {
	address := netip.AddrPortFrom(netip.MustParseAddr("10.0.0.1"), uint16(5000+len(c.f.clients)))
	identity, err := wire.NewIdentity(c.register.Name, address)
	if err != nil {
		c.f.t.Fatal(err)
	}
	c.register.ProbeAddress = fmt.Sprintf("10.0.1.%d:7341", 1+len(c.f.clients))
	c.member = &fakeMember{c: c, name: identity.Name}
	c.register.Graph = string(identity.Name)
}

// joinGraph carries out the server's order.
func (m *fakeMember) joinGraph(order *control.Graph) {
	f := m.c.f
	m.told = append(m.told, order)
	var contacts []overlay.Name
	for _, c := range order.Contacts {
		contacts = append(contacts, overlay.Name(c))
	}
	if m.node == nil {
		node, err := overlay.New(overlay.Config{Name: m.name, Degree: order.Degree, Transport: m,
			Random: rand.New(rand.NewPCG(f.r.Uint64(), 0)), Contacts: contacts})
		if err != nil {
			f.t.Fatal(err)
		}
		m.node, m.wake = node, -1
	} else {
		m.node.Meet(f.time, contacts)
	}
	m.report = nil
	m.watch()
}

// Send is the network between members.
func (m *fakeMember) Send(to overlay.Name, msg overlay.Message) {
	f := m.c.f
	card, _ := wire.ParseName(to)
	other := f.clients[card.Node]
	if m.c.isCut || m.alone || other == nil {
		return
	}
	f.after(200*time.Microsecond, func() {
		if x := other.member; other.state == clientRunning && !other.isCut && x != nil &&
			x.name == to && !x.alone && x.node != nil {
			x.node.Receive(f.time, m.name, msg)
			x.watch()
		}
	})
}

// watch makes sure that the node's next Tick is called in time, and reports the node's neighbours.
func (m *fakeMember) watch() {
	outs, _ := m.node.Neighbours()
	names := []string{}
	for _, o := range outs {
		card, _ := wire.ParseName(o)
		names = append(names, card.Node)
	}
	slices.Sort(names)
	if m.report == nil || !slices.Equal(names, m.report) {
		m.report = names
		m.c.send(0, &control.Neighbours{Names: names, Connected: m.connected})
	}
	at := max(m.node.Next(), m.c.f.time+time.Millisecond)
	if m.wake >= 0 && m.wake <= at {
		return
	}
	m.wake = at
	m.c.f.after(at-m.c.f.time, func() {
		if m.wake == at && m.c.state == clientRunning {
			m.wake = -1
			m.node.Tick(m.c.f.time)
			m.watch()
		}
	})
}

// targets returns what the client needs to probe its neighbours.
func (m *fakeMember) targets() (all []control.Target) {
	outs, _ := m.node.Neighbours()
	for _, o := range outs {
		card, _ := wire.ParseName(o)
		to := m.c.f.clients[card.Node]
		h := fnv.New64a()
		h.Write([]byte(m.name))
		for _, secret := range to.answerer.secrets {
			all = append(all, control.Target{Peer: card.Node, PeerEpoch: to.register.Epoch,
				Key: secret.Key(h.Sum64()).Encode()})
			break
		}
	}
	return all
}

// largeFleet returns a fleet of members, in which not all pairs are measured.
func largeFleet(t *testing.T, nodes int) *fleet {
	t.Helper()
	config := testConfig()
	config.AllPairs, config.Degree, config.Settle = 5, 3, 5*time.Second
	f := newFleet(t, config)
	for _, name := range names(nodes) {
		f.join(name)
		f.clients[name].asMember() // the message that registers it has not been encoded yet
		f.clients[name].connect()
	}
	return f
}

// wantGraph lets time pass until every running client has as many neighbours as the graph's degree.
func (f *fleet) wantGraph(limit time.Duration) {
	f.t.Helper()
	if !f.run(limit, func() bool {
		for _, c := range f.clients {
			if c.state == clientRunning && (c.member.node == nil ||
				len(c.member.report) != f.config.Degree) {
				return false
			}
		}
		return true
	}) {
		f.t.Fatalf("the graph is not regular after %v", limit)
	}
}

// In a large fleet only neighbours in the graph are measured, by sweeps and by runs. All other
// pairs are related by way of third nodes, and their bounds contain the truth.
func TestLargeFleetMeasuresNeighbours(t *testing.T) {
	const nodes = 18
	f := largeFleet(t, nodes)
	f.wantGraph(time.Minute)
	f.run(time.Minute, func() bool { return f.core.sweep == nil && f.core.sweepBy.IsZero() })
	edges := f.core.edges()
	if len(edges) < nodes*2 || len(edges) > nodes*f.config.Degree {
		t.Fatalf("%d edges", len(edges))
	}
	for _, p := range edges {
		if !f.core.wereMeasured(p) {
			t.Errorf("%v was not measured", p)
		}
	}
	if f.clashes > 0 {
		t.Errorf("%d times a node was in two pairs at once", f.clashes)
	}
	f.openRun("large")
	began := len(f.core.pairs)
	f.run(20*time.Second, nil)
	for _, c := range f.clients {
		if c.probing == nil || !c.probing.Neighbours || len(c.probing.Targets) > 0 {
			t.Fatalf("%s has the order %+v", c.register.Name, c.probing)
		}
	}
	m := f.wantTrue()
	if lacks := f.runLacks(); len(lacks) > 0 {
		t.Errorf("the run lacks %v", lacks)
	}
	// A few edges may have been replaced meanwhile.
	if len(f.core.pairs) > began*5/4 || len(m.Pairs) > 3*len(edges) || !m.Healthy() {
		t.Errorf("%d pairs before the run, %d after, %d in the matrix, unhealthy %.300q",
			began, len(f.core.pairs), len(m.Pairs), m.Unhealthy)
	}
	f.wantRelated()
}

// runPairs returns the pairs of the open run, with their trains.
func (f *fleet) runPairs() []*tscratio.Pair {
	f.t.Helper()
	if err := f.core.save(); err != nil {
		f.t.Fatal(err)
	}
	dir, err := runs.Open(f.core.run.draft.Path())
	if err != nil {
		f.t.Fatal(err)
	}
	defer dir.Close()
	pairs, missing := dir.Relations()
	if len(missing) > 0 {
		f.t.Error(missing)
	}
	return pairs
}

// runLacks returns the relations that the open run is said to lack.
func (f *fleet) runLacks() []runs.Missing {
	f.t.Helper()
	if err := f.core.save(); err != nil {
		f.t.Fatal(err)
	}
	dir, err := runs.Open(f.core.run.draft.Path())
	if err != nil {
		f.t.Fatal(err)
	}
	defer dir.Close()
	return slices.DeleteFunc(dir.Lacks(), func(m runs.Missing) bool {
		return !strings.HasPrefix(m.Part, "relations/") && !strings.HasPrefix(m.Part, "node ")
	})
}

// wantRelated relates random pairs of nodes and compares their bounds with the truth.
func (f *fleet) wantRelated() {
	f.t.Helper()
	var all []*tscratio.Relation
	for _, p := range f.runPairs() {
		if both, err := relations(p, p.Trains()); err == nil {
			all = append(all, both...)
		}
	}
	closure, err := tscratio.NewClosure(all, tscratio.ThirdAgreed)
	if err != nil {
		f.t.Fatal(err)
	}
	far := 0
	nodes := names(len(f.clients))
	for range 500 {
		from, into := nodes[f.r.IntN(len(nodes))], nodes[f.r.IntN(len(nodes))]
		at := f.time - time.Duration(f.r.Int64N(int64(15*time.Second)))
		got, err := closure.Translate(from, into, f.clients[from].counter(at))
		if from == into {
			continue
		}
		if err != nil {
			f.t.Fatal(err)
		}
		const slop = 8 // rounding in float64, in cycles
		truth := f.clients[into].counter(at)
		if truth+slop < got.Lo || truth > got.Hi+slop {
			f.t.Fatalf("%s in cycles of %s is %v by %v and %v, and %d in truth",
				from, into, got.Interval, got.LoPath, got.HiPath, truth)
		}
		if len(got.LoPath) > 3 {
			far++
		}
	}
	if far < 50 {
		f.t.Errorf("%d of 500 pairs were related by several third nodes", far)
	}
}

// If a node joins a large fleet, the server measures only the node's own edges, and the edges that
// were moved to make room for the node. The graph outlives a restart of the server and the death of
// a node.
func TestLargeFleetChanges(t *testing.T) {
	const nodes = 16
	f := largeFleet(t, nodes)
	f.wantGraph(time.Minute)
	f.run(time.Minute, func() bool { return f.core.sweep == nil && f.core.sweepBy.IsZero() })
	clear(f.probed)
	f.join("late")
	f.clients["late"].asMember()
	f.clients["late"].connect()
	f.wantGraph(time.Minute)
	f.run(time.Minute, func() bool { return f.core.sweep == nil && f.core.sweepBy.IsZero() })
	// Each edge of the new node may move one other edge. So the number of new edges is at most
	// twice the number of the node's edges. Each edge is probed in both directions.
	if n := len(f.probed); n == 0 || n > 2*4*f.config.Degree {
		t.Errorf("%d directions were probed because one node joined", n)
	}

	public := f.core.issuer.Public()
	f.restart()
	if !slices.Equal(f.core.issuer.Public(), public) {
		t.Error("a restarted server signs with another key")
	}
	f.run(20*time.Second, nil)
	for _, c := range f.clients {
		if m := c.member; len(m.told) < 2 || len(m.report) != f.config.Degree {
			t.Errorf("%s was told %d times and has the neighbours %v", m.name, len(m.told),
				m.report)
		}
	}
	f.clients["n03"].state = clientKilled
	f.run(time.Minute, nil)
	f.wantGraph(time.Minute)
	for _, p := range f.core.edges() {
		if slices.Contains(p[:], "n03") {
			t.Errorf("a dead node has the edge %v", p)
		}
	}
}

// If a node could reach none of its contacts because they had died, the server gives it others.
func TestLonelyNodeIsGivenOtherContacts(t *testing.T) {
	f := largeFleet(t, 16)
	f.wantGraph(time.Minute)
	late := f.join("late")
	late.asMember()
	late.member.alone = true
	late.connect()
	f.run(lonelyAgain/2, nil)
	for _, c := range late.member.told[0].Contacts {
		card, _ := wire.ParseName(overlay.Name(c))
		f.clients[card.Node].state = clientKilled
	}
	f.run(lonelyAgain, nil)
	late.member.alone = false
	f.wantGraph(time.Minute)
	if n := len(late.member.told); n > 10 {
		t.Errorf("the node was told %d times", n)
	}
}

// Nodes between which tuples may travel measure each other, but no node measures too many.
func TestLargeFleetMeasuresWhereTrafficGoes(t *testing.T) {
	const nodes = 18
	f := largeFleet(t, nodes)
	f.wantGraph(time.Minute)
	edges := f.core.edges()
	host := func(c *fakeClient) string {
		return netip.MustParseAddrPort(c.register.ProbeAddress).Addr().String()
	}
	connect := func(c *fakeClient, to ...*fakeClient) {
		for _, other := range to {
			c.member.connected = append(c.member.connected, host(other))
		}
		c.member.report = nil
		c.member.watch()
	}
	var pair [2]*fakeClient
	for _, name := range names(nodes)[6:17] {
		if !slices.Contains(edges, [2]string{"n00", name}) {
			pair = [2]*fakeClient{f.clients["n00"], f.clients[name]}
		}
	}
	key := [2]string{"n00", pair[1].register.Name}
	connect(pair[0], pair[1])
	f.run(time.Second, nil) // the report arrives
	f.openRun("traffic")
	if !f.core.wereMeasured(key) {
		t.Errorf("%v was not measured before the run", key)
	}
	connect(pair[1], pair[0], f.clients["n05"])
	liar := f.clients["n17"]
	for _, name := range names(nodes) {
		connect(liar, f.clients[name])
	}
	connect(liar, liar)
	liar.member.connected = append(liar.member.connected, "192.0.2.77")
	connect(liar)
	f.run(10*time.Second, nil)
	targets := func(c *fakeClient) (all []string) {
		for _, t := range c.probing.Targets {
			all = append(all, t.Peer)
		}
		return all
	}
	if got := targets(pair[0]); !slices.Contains(got, key[1]) {
		t.Errorf("n00 is to probe %v, want %s", got, key[1])
	}
	got := targets(pair[1])
	if slices.Contains(got, "n00") || !slices.Contains(got, "n05") {
		t.Errorf("%s is to probe %v, want n05 and not n00", key[1], got)
	}
	if got := targets(liar); len(got) > maxTalks || slices.Contains(got, "n17") {
		t.Errorf("a node that says that it talks to all is to probe %v", got)
	}
	if !slices.ContainsFunc(f.runPairs(), func(p *tscratio.Pair) bool {
		return p.A.Name == key[0] && p.B.Name == key[1] && p.Trains() >= 5
	}) {
		t.Errorf("%v got no trains in the run", key)
	}

	// If a node goes, the server sends new orders only to nodes that had to probe this node, and to
	// nodes that this node had to probe.
	before := map[string]*control.Probing{}
	for name, c := range f.clients {
		before[name] = c.probing
	}
	pair[1].state = clientKilled
	f.run(f.config.Dead+time.Second, nil)
	if got := targets(pair[0]); slices.Contains(got, key[1]) {
		t.Errorf("n00 is to probe %v, but %s is dead", got, key[1])
	}
	changed := 0
	for name, c := range f.clients {
		if c.probing != before[name] {
			changed++
		}
	}
	if changed == 0 || changed > 4 {
		t.Errorf("%d nodes got new orders because one died", changed)
	}
}

// A node must register with its own name in the graph. A node that registers before the fleet is
// large gets the order to join the graph later.
func TestMembersOfTheGraph(t *testing.T) {
	config := testConfig()
	config.AllPairs, config.Degree = 5, 3
	f := newFleet(t, config)
	for _, name := range names(5) {
		f.join(name)
		f.clients[name].asMember()
		f.clients[name].connect()
	}
	f.run(10*time.Second, nil)
	for _, c := range f.clients {
		if len(c.member.told) > 0 {
			t.Errorf("%s is in a graph of a fleet of %d", c.register.Name, len(f.clients))
		}
	}
	liar := f.join("liar")
	liar.register.Graph = f.clients["n00"].register.Graph
	liar.connect()
	f.run(time.Second, nil)
	if n := len(liar.refused); n == 0 || !strings.Contains(liar.refused[n-1].Text, "not of node") {
		t.Errorf("registered with the name of another: %+v", liar.refused)
	}
	liar.register.Graph = ""
	liar.connect()
	f.run(time.Second, nil)
	first := 0
	for _, name := range names(5) {
		m := f.clients[name].member
		if len(m.told) != 1 {
			t.Fatalf("%s was told %d times", name, len(m.told))
		}
		if len(m.told[0].Contacts) == 0 {
			first++
		}
		issuers, signature := m.told[0].Issuers, m.told[0].Signature
		if err := wire.Check(m.name, issuers, signature); err != nil {
			t.Error(err)
		}
	}
	if first != 1 {
		t.Errorf("%d nodes begin a graph", first)
	}

	// After a key is taken off the list, all nodes get signatures by another issuer.
	f.core.handle(control.Incoming{Revoked: true})
	f.run(time.Second, nil)
	for _, name := range names(5) {
		told := f.clients[name].member.told
		if len(told) != 2 || slices.Equal(told[0].Issuers[0], told[1].Issuers[0]) {
			t.Errorf("%s was told %d times", name, len(told))
		}
	}
}
