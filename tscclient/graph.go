package tscclient

import (
	"bytes"
	"cmp"
	"context"
	cryptorand "crypto/rand"
	"encoding/json"
	"fmt"
	"hash/fnv"
	"maps"
	"math/rand/v2"
	"net/netip"
	"slices"
	"sync"
	"time"

	"github.com/cloudprofiler/cloudprofiler/channel"
	"github.com/cloudprofiler/cloudprofiler/control"
	"github.com/cloudprofiler/cloudprofiler/overlay"
	"github.com/cloudprofiler/cloudprofiler/overlay/wire"
)

// In a large fleet, the node is a member of a graph (package overlay). The server only signs names
// and gives contacts. The nodes maintain the graph among themselves, and each node asks its
// neighbours for what it needs to probe them. So the graph also works while the server is away.

// graphPart is the node's part in the graph. The goroutine of maintainEdges owns the overlay.Node.
type graphPart struct {
	link    *Link
	socket  *wire.Socket
	elapsed func() time.Duration // the time since the link began
	pace    time.Duration        // how many times faster the graph's clock runs
	orders  chan *control.Graph
	ending  chan struct{} // has room for one element: leave the graph
	left    chan struct{} // closed when the node has left the graph, or was not a member

	questions chan func() // maintainEdges calls them
	offers    offeredParts

	// Only the graph's goroutine (maintainEdges) uses these fields.
	node     *overlay.Node  // nil until the server has signed the node's name
	issuers  [][]byte       // from the last order
	told     control.Target // how this node described itself to its neighbours
	asked    map[overlay.Name]time.Time
	incoming chan datagram
	renew    overlay.Time // when neighbours get new keys for probes
	shunned  []string     // the nodes that the graph shuns because they break its rules
	facts    []overlay.Fact
	factsAt  overlay.Time // when to look at the node's facts again

	mu     sync.Mutex
	member bool
	outs   []overlay.Name
	blamed []control.Blamed      // the nodes that broke the rules of the graph lately, by name
	known  map[overlay.Name]Peer // the answers of outgoing neighbours
	unsaid bool                  // the server does not know all that reportNeighbours says
	plain  map[string]plainBound // by peer: see storeBound

	// Only the method reportNeighbours uses these fields.
	connections tcpConnections
	talks       []string // the addresses of machines to which this one is connected
}

type datagram struct {
	from overlay.Name
	m    any
}

// keyLife is the time after which neighbours get new keys to probe this node with. The keys that
// the server makes are replaced after the same time.
const keyLife = 10 * time.Minute

// askEvery is the time after which a neighbour that did not describe itself is asked again.
const askEvery = time.Second

// listenGraph opens the socket of the node's part in the graph: at the port after the answerer's
// or, if that is taken, at any other. Until the server sends an order, the socket is silent.
func listenGraph(l *Link) (*graphPart, error) {
	node, at := l.client.Node().Name, l.client.Address()
	listen := func(port uint16) (*wire.Socket, error) {
		return wire.Listen(node, netip.AddrPortFrom(at.Addr(), port), l.config.Advertise.Addr())
	}
	socket, err := listen(at.Port() + 1)
	if err != nil {
		socket, err = listen(0)
	}
	if err != nil {
		return nil, err
	}
	elapsed := l.config.elapsed
	if elapsed == nil {
		began := time.Now()
		elapsed = func() time.Duration { return time.Since(began) }
	}
	return &graphPart{link: l, socket: socket, elapsed: elapsed,
		pace: max(time.Duration(l.config.pace), 1), orders: make(chan *control.Graph),
		ending: make(chan struct{}, 1), left: make(chan struct{}), questions: make(chan func()),
		asked: map[overlay.Name]time.Time{}, known: map[overlay.Name]Peer{},
		plain:    map[string]plainBound{},
		incoming: make(chan datagram, 64)}, nil
}

// graphTime returns the time of the graph's clock.
func (g *graphPart) graphTime() overlay.Time { return g.elapsed() * g.pace }

// receiveDatagrams passes datagrams to the graph's goroutine.
func (g *graphPart) receiveDatagrams() {
	defer g.link.running.Done()
	for {
		from, m, err := g.socket.Receive()
		if err != nil {
			return
		}
		select {
		case g.incoming <- datagram{from, m}:
		case <-g.link.ctx.Done():
			return
		}
	}
}

// maintainEdges maintains the node's edges until the link ends.
func (g *graphPart) maintainEdges() {
	defer g.link.running.Done()
	defer g.socket.Close()
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	leaving := false
	for {
		select {
		case <-g.link.ctx.Done():
			return
		case m := <-g.orders:
			g.carryOut(m)
		case <-g.ending:
			leaving = true
			if g.node != nil {
				g.node.Leave(g.graphTime())
			}
		case ask := <-g.questions:
			ask()
		case d := <-g.incoming:
			g.handleDatagram(d)
		case <-timer.C:
		}
		if leaving && (g.node == nil || g.node.Left()) {
			close(g.left)
			return
		}
		if g.node == nil {
			continue
		}
		if g.graphTime() >= g.factsAt && !leaving {
			g.lookAtFacts()
		}
		if now := g.graphTime(); now >= g.node.Next() {
			g.node.Tick(now)
		}
		if g.graphTime() >= g.renew {
			g.renew = g.graphTime() + keyLife
			g.link.client.renewNeighbours()
			g.answerAll()
		}
		g.askNeighbours()
		g.noteBlamed()
		timer.Reset(min(max(g.node.Next()-g.graphTime(), 0)/g.pace, askEvery))
	}
}

// leaveGraph connects the node's neighbours with each other. It waits a moment for their answers.
func (g *graphPart) leaveGraph() {
	g.ending <- struct{}{}
	select {
	case <-g.left:
	case <-time.After(leaveLimit):
	}
}

// leaveLimit is how long a node waits for its neighbours when it leaves. If an answer is late, the
// neighbours find out by themselves that the node is gone.
const leaveLimit = 300 * time.Millisecond

// passOrder passes an order of the server to the graph's goroutine, which carries it out.
func (g *graphPart) passOrder(m *control.Graph) error {
	if err := g.socket.Use(m.Issuers, m.Signature); err != nil {
		return err
	}
	select {
	case g.orders <- m:
		return nil
	case <-g.link.ctx.Done():
		return g.link.ctx.Err()
	}
}

// carryOut joins the graph, or adds the order's contacts to the known ones. The server sends an
// order after each registration. A registration may change how the node describes itself. In that
// case carryOut tells the nodes that probe this one.
func (g *graphPart) carryOut(m *control.Graph) {
	contacts := make([]overlay.Name, len(m.Contacts))
	for i, c := range m.Contacts {
		contacts[i] = overlay.Name(c)
	}
	if g.node == nil {
		var seed [32]byte
		_, _ = cryptorand.Read(seed[:]) // never fails
		node, err := overlay.New(overlay.Config{Name: g.socket.Name(), Degree: m.Degree,
			Random: rand.New(rand.NewChaCha8(seed)), Transport: g.socket, Contacts: contacts,
			Match: channel.MatchFact, MayTake: g.mayTake})
		if err != nil {
			g.link.config.Log.Warn("node does not join the graph", "why", err)
			return
		}
		g.node = node
	} else {
		g.node.Meet(g.graphTime(), contacts)
	}
	revoked := g.issuers != nil && !slices.EqualFunc(g.issuers, m.Issuers, bytes.Equal)
	g.issuers = m.Issuers
	if revoked { // a node that is no member any more still knows keys for probes
		g.renew = g.graphTime()
		clear(g.asked)
	}
	if d := g.link.describeNode(); !equalTargets(d, g.told) {
		g.told = d
		g.answerAll()
	}
	g.mu.Lock()
	g.member, g.unsaid = true, true
	g.mu.Unlock()
}

func equalTargets(x, y control.Target) bool {
	x.Key, y.Key = nil, nil
	a, _ := json.Marshal(x) // no error: the struct has only texts and numbers
	b, _ := json.Marshal(y)
	return bytes.Equal(a, b)
}

// handleDatagram handles a datagram of another member.
func (g *graphPart) handleDatagram(d datagram) {
	if g.node == nil {
		return
	}
	switch m := d.m.(type) {
	case wire.Question:
		g.describeTo(d.from)
	case wire.Answer:
		g.storeDescription(d.from, m.Body)
	case wire.Fetch:
		g.answerFetch(d.from, m)
	case wire.Part:
		g.passPart(m)
	case overlay.Message:
		g.node.Receive(g.graphTime(), d.from, m)
	}
}

// answerAll describes this node to those that probe it.
func (g *graphPart) answerAll() {
	_, ins := g.node.Neighbours()
	for _, to := range ins {
		g.describeTo(to)
	}
}

// describeTo describes this node to another member. The description has a probe key that no other
// member gets.
func (g *graphPart) describeTo(to overlay.Name) {
	d := g.link.describeNode()
	h := fnv.New64a()
	_, _ = h.Write([]byte(to)) // never fails
	d.Key = g.link.client.keyFor(h.Sum64()).Encode()
	body, err := json.Marshal(d)
	if err != nil {
		return
	}
	g.socket.SendAny(to, wire.Answer{Body: body})
}

// storeDescription stores how a neighbour describes itself.
func (g *graphPart) storeDescription(from overlay.Name, body []byte) {
	var t control.Target
	card, err := wire.ParseName(from)
	if err == nil {
		err = json.Unmarshal(body, &t)
	}
	var p Peer
	if err == nil {
		p, err = peerOf(t)
	}
	if err == nil {
		err = g.link.client.checkPeer(p)
	}
	switch {
	case err == nil && p.Node.Name != card.Node:
		err = fmt.Errorf("it calls itself %q", p.Node.Name)
	case err == nil && p.Node.Name == g.link.client.Node().Name:
		return
	}
	if err != nil {
		g.link.config.Log.Warn("neighbour's description is not used", "neighbour", card.Node,
			"why", err)
		return
	}
	g.mu.Lock()
	isNew := slices.Contains(g.outs, from) && g.known[from] != p
	if isNew {
		g.known[from] = p
	}
	g.mu.Unlock()
	if isNew {
		g.link.probePeers()
	}
}

// askNeighbours asks new neighbours to describe themselves, and forgets former ones.
func (g *graphPart) askNeighbours() {
	outs, _ := g.node.Neighbours()
	slices.Sort(outs)
	g.mu.Lock()
	changed := !slices.Equal(outs, g.outs)
	gone := false
	if changed {
		g.outs, g.unsaid = outs, true
		maps.DeleteFunc(g.known, func(n overlay.Name, _ Peer) bool {
			gone = gone || !slices.Contains(outs, n)
			return !slices.Contains(outs, n)
		})
	}
	var ask []overlay.Name
	for _, n := range outs {
		_, knows := g.known[n]
		if last, ok := g.asked[n]; !ok || !knows && time.Since(last) >= askEvery {
			ask = append(ask, n)
		}
	}
	g.mu.Unlock()
	maps.DeleteFunc(g.asked, func(n overlay.Name, _ time.Time) bool {
		return !slices.Contains(outs, n)
	})
	for _, n := range ask {
		g.asked[n] = time.Now()
		g.socket.SendAny(n, wire.Question{})
	}
	if gone {
		g.link.probePeers()
	}
}

// noteBlamed logs which nodes break the rules of the graph, and makes the link tell the server.
func (g *graphPart) noteBlamed() {
	times := map[string]int{}
	for _, b := range g.node.Blamed() {
		card, err := wire.ParseName(b.Name)
		if err != nil {
			continue
		}
		if times[card.Node] == 0 && !slices.ContainsFunc(g.blamed,
			func(old control.Blamed) bool { return old.Name == card.Node }) {
			g.link.config.Log.Info("a node broke a rule of the graph", "node", card.Node, "how",
				b.Offence)
		}
		if len(times) < control.MaxNeighbours || times[card.Node] > 0 {
			times[card.Node] = int(min(uint64(times[card.Node])+b.Count, control.MaxBlamed))
		}
	}
	var blamed []control.Blamed
	for _, name := range slices.Sorted(maps.Keys(times)) {
		blamed = append(blamed, control.Blamed{Name: name, Times: times[name]})
	}
	if !slices.Equal(blamed, g.blamed) { // only this goroutine changes g.blamed
		g.mu.Lock()
		g.blamed, g.unsaid = blamed, true
		g.mu.Unlock()
	}
	g.logShunned()
}

// logShunned logs which nodes the graph shuns from now on.
func (g *graphPart) logShunned() {
	var names []string
	for _, b := range g.node.Shunned() {
		card, err := wire.ParseName(b.Name)
		if err != nil || slices.Contains(names, card.Node) {
			continue
		}
		names = append(names, card.Node)
		if !slices.Contains(g.shunned, card.Node) {
			g.link.config.Log.Warn("a node breaks the rules of the graph: no edge leads to it, or "+
				"from it to here", "node", card.Node, "how", b.Offence, "times", b.Count)
		}
	}
	g.shunned = names
}

// describedPeers returns the outgoing neighbours that have described themselves.
func (g *graphPart) describedPeers() []Peer {
	g.mu.Lock()
	defer g.mu.Unlock()
	return slices.SortedFunc(maps.Values(g.known),
		func(x, y Peer) int { return cmp.Compare(x.Node.Name, y.Node.Name) })
}

// reportNeighbours tells the server the outgoing neighbours, the machine's connections and the
// blamed nodes, unless the server knows them already.
func (g *graphPart) reportNeighbours(ctx context.Context) {
	g.mu.Lock()
	member := g.member
	g.mu.Unlock()
	if !member {
		return
	}
	talks := g.connections.listAddresses(time.Now())
	g.mu.Lock()
	unsaid := g.unsaid || !slices.Equal(talks, g.talks)
	m := &control.Neighbours{Connected: talks, Blamed: g.blamed}
	g.talks = talks
	for _, n := range g.outs {
		if card, err := wire.ParseName(n); err == nil {
			m.Names = append(m.Names, card.Node)
		}
	}
	g.unsaid = false
	g.mu.Unlock()
	if !unsaid {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	if err := g.link.Tell(ctx, m); err != nil {
		g.mu.Lock()
		g.unsaid = true
		g.mu.Unlock()
	}
}
