package server

import (
	"math"
	"slices"
	"time"

	"github.com/cloudprofiler/cloudprofiler/control"
	"github.com/cloudprofiler/cloudprofiler/sim"
	"github.com/cloudprofiler/cloudprofiler/sim/agents"
	"github.com/cloudprofiler/cloudprofiler/sim/library"
)

// clientProtocol is the protocol of the agents' connections to the server. A client does what
// package tscclient does: it registers, answers the server, probes as it is ordered to, and reports
// its trains until the server acknowledges them.
type clientProtocol struct {
	letterCodec
	worldTruth
	own    uint8
	tr     sim.Transport
	server *serverProtocol
	fleet  *agents.Fleet
	shards [][]nodeClient
}

// nodeClient is the client of one node.
type nodeClient struct {
	connection uint32 // counted from 1; 0: the node has no client
	registered bool
	heard      sim.Time // when it last heard from the server
	tried      sim.Time // when it last tried to register
	last       sim.Time // when its last message to the server arrives
	heartbeat  sim.Time
	dead       sim.Time // after this silence, it connects again

	probing *control.Probing // its order to probe; nil: none
	due     sim.Time         // when it probes next
	turn    uint32
	reports uint64 // number of its last report
	dropped uint64
	unacked []*control.Trains

	member bool // the server made it a member of the graph
	told   bool // the server has been told the neighbours in the list said
	said   []sim.Node
}

// These are the kinds of a client's events.
const (
	clientBeat   = 1 // it sends a heartbeat, and tells what has changed
	clientProbe  = 2 // the next of its own trains is due
	clientLetter = 3 // from the server
	clientAnswer = 4 // an answer is ready
	clientEpoch  = 5 // its counter was interrupted
)

// maxUnacked is the largest number of reports that a client keeps.
const maxUnacked = 1000

func newClients(b *library.Builder, key string) any {
	f := b.File
	k := &clientProtocol{own: b.Own(key), tr: b.Transport(key + ".transport")}
	k.server, _ = library.Find[*serverProtocol](b, key+".server", "is not of the class Coordinator")
	k.fleet, _ = library.Find[*agents.Fleet](b, key+".agents", "is not of the class OverlayAgents")
	k.worldTruth = worldTruth{w: b.W, suspend: float64(f.Int(key+".suspend", 0, math.MaxInt64, 0)),
		liars: f.Float(key+".liars", 0, 1, 0),
		lie:   float64(f.Int(key+".lie", 0, 1e9, 1e6)) * cyclesPerNs}
	if k.server != nil && k.fleet != nil {
		k.server.clients = k.own
		k.server.config.Degree = k.fleet.Degree()
		k.shorter = int64(float64(k.fleet.LeastDelay()) * cyclesPerNs)
		k.fleet.LeaveTrains()
		if err := k.server.config.Validate(); err != nil {
			f.Fault(key+".server", "%v", err)
		}
	}
	return k
}

const cyclesPerNs = float64(agents.Nominal_hz) / 1e9

func (k *clientProtocol) of(n sim.Node) *nodeClient {
	return &k.shards[n/sim.ShardNodes][n%sim.ShardNodes]
}

// Init starts the client of a node. At the server's node (homeNode), it also starts the server.
func (k *clientProtocol) Init(c *sim.Context) {
	if c.Node() == homeNode {
		c.After(1, k.server.own, serverTick, 0)
	}
	a := k.of(c.Node())
	a.heartbeat = sim.Time(time.Second)
	k.reconnect(c, a)
	c.After(1+sim.Time(c.Random().Below(uint64(a.heartbeat))), k.own, clientBeat, 0)
	k.watchEpoch(c)
}

// watchEpoch makes sure that the client notices when its counter is interrupted.
func (k *clientProtocol) watchEpoch(c *sim.Context) {
	if _, next := k.epochOf(c.Node(), c.Now()); next < sim.Never {
		c.After(next-c.Now(), k.own, clientEpoch, 0)
	}
}

func (k *clientProtocol) send(c *sim.Context, a *nodeClient, request uint64, m control.Message) {
	c.SendValue(orderedTransport{k.tr, &a.last}, homeNode, k.server.own, serverLetter,
		&linkLetter{a.connection, request, m})
}

// sendLater sends an answer after some time.
func (k *clientProtocol) sendLater(
	c *sim.Context, a *nodeClient, after sim.Time, request uint64, m control.Message,
) {
	c.SendValue(waitTransport(after), c.Node(), k.own, clientAnswer, &linkLetter{a.connection,
		request, m})
}

// reconnect opens another connection and registers.
func (k *clientProtocol) reconnect(c *sim.Context, a *nodeClient) {
	a.connection++
	k.register(c, a)
}

func (k *clientProtocol) register(c *sim.Context, a *nodeClient) {
	n := c.Node()
	epoch, _ := k.epochOf(n, c.Now())
	d := agents.Described(nameOf(n))
	a.registered, a.tried, a.told = false, c.Now(), false
	k.send(c, a, 1, &control.Register{
		Name: nameOf(n), Instance: "i", Epoch: epochName(epoch), Nominal_hz: d.Nominal_hz,
		Quantum_cycles: d.Quantum_cycles, CoreSlack_cycles: d.CoreSlack_cycles,
		Machine: "m-" + nameOf(n), Cores: 8, ProbeAddress: addressOf(n), Software: "simulated",
		Graph:        graphNameOf(n),
		Capabilities: []string{control.CanProbe, control.CanRun, control.CanFiles}})
}

func (k *clientProtocol) Receive(c *sim.Context, e *sim.Event) {
	a := k.of(c.Node())
	if a.connection == 0 {
		c.Fail("the node has no client: use the initialiser AgentJoin or the control AgentGrowth")
		return
	}
	switch e.Plain() {
	case clientBeat:
		c.After(a.heartbeat, k.own, clientBeat, 0)
		k.beat(c, a)
	case clientEpoch:
		k.watchEpoch(c)
		k.register(c, a)
	case clientProbe:
		if a.probing != nil && a.due == c.Now() {
			k.runNextTrain(c, a)
		}
	case clientLetter, clientAnswer:
		l, ok := c.Take(e).(*linkLetter)
		if !ok {
			c.Fail("a client got an event that is not a message of the server")
			return
		}
		switch {
		case l.connection != a.connection: // of a connection that was given up
		case e.Plain() == clientAnswer:
			k.send(c, a, l.request, l.m)
		default:
			a.heard = c.Now()
			k.receive(c, a, l.request, l.m)
		}
	}
}

func (k *clientProtocol) beat(c *sim.Context, a *nodeClient) {
	const patience = sim.Time(5 * time.Second)
	switch {
	case a.registered && c.Now()-a.heard > a.dead,
		!a.registered && c.Now()-a.tried > patience:
		k.reconnect(c, a)
	case a.registered:
		epoch, _ := k.epochOf(c.Node(), c.Now())
		own := k.counter(c.Node(), epoch)
		k.send(c, a, 2, &control.Ping{Counter_cycles: own.at(c.Now())})
		k.tellNeighbours(c, a)
	}
}

// tellNeighbours tells the server which nodes the node probes, unless the server knows them
// already.
func (k *clientProtocol) tellNeighbours(c *sim.Context, a *nodeClient) {
	if !a.member {
		return
	}
	outs := k.fleet.Outs(c.Node())
	if a.told && slices.Equal(outs, a.said) {
		return
	}
	a.told, a.said = true, outs
	m := &control.Neighbours{}
	for _, n := range outs {
		m.Names = append(m.Names, nameOf(n))
	}
	k.send(c, a, 0, m)
}

func (k *clientProtocol) receive(c *sim.Context, a *nodeClient, request uint64, m control.Message) {
	switch m := m.(type) {
	case *control.Welcome:
		a.registered = true
		a.heartbeat, a.dead = sim.Time(m.Heartbeat_ns), sim.Time(m.Dead_ns)
		for _, t := range a.unacked {
			k.send(c, a, 0, t)
		}
	case *control.Refusal:
		if m.Code == control.NotRegistered {
			k.register(c, a)
		}
	case *control.LoadRequest:
		k.sendLater(c, a, sim.Time(m.Over_ns), request, &control.Load{Over_ns: m.Over_ns})
	case *control.ProbeSecrets:
		k.send(c, a, request, &control.Done{})
	case *control.Graph:
		k.send(c, a, request, &control.Done{})
		k.joinGraph(c, a, m.Contacts)
	case *control.Probing:
		k.send(c, a, request, &control.Done{})
		a.probing = nil
		if len(m.Targets) > 0 || m.Neighbours {
			a.probing = m
			k.probeLater(c, a)
		}
	case *control.Probe:
		k.runOrderedTrains(c, a, request, m)
	case *control.Ack:
		a.unacked = slices.DeleteFunc(a.unacked, func(t *control.Trains) bool {
			return t.Report <= m.Report
		})
	case *control.Run:
		k.send(c, a, request, &control.RunState{Name: m.Name, Closed: m.Close})
	case *control.ListFiles:
		k.send(c, a, request, &control.Files{Run: m.Run})
	}
}

// joinGraph makes the node a member of the graph of neighbours (package overlay).
func (k *clientProtocol) joinGraph(c *sim.Context, a *nodeClient, contacts []string) {
	if a.member {
		return // a node without neighbours asks its contacts again by itself
	}
	a.member = true
	var members []sim.Node
	for _, name := range contacts {
		if n, ok := nodeOf(k.w, name); ok {
			members = append(members, n)
		}
	}
	k.fleet.Start(c, members)
}

// probeLater plans the next of the node's own trains.
func (k *clientProtocol) probeLater(c *sim.Context, a *nodeClient) {
	period := max(sim.Time(a.probing.Period_ns), 1)
	a.due = c.Now() + period
	c.After(period, k.own, clientProbe, 0)
}

// runNextTrain runs the next of the node's own trains.
func (k *clientProtocol) runNextTrain(c *sim.Context, a *nodeClient) {
	p := a.probing
	k.probeLater(c, a)
	var peers []sim.Node
	epochs := map[sim.Node]string{}
	for _, t := range p.Targets {
		if n, ok := nodeOf(k.w, t.Peer); ok {
			peers = append(peers, n)
			epochs[n] = t.PeerEpoch
		}
	}
	if p.Neighbours {
		peers = append(peers, k.fleet.Outs(c.Node())...)
	}
	if len(peers) == 0 {
		return
	}
	peer := peers[int(a.turn)%len(peers)]
	a.turn++
	epoch, ok := epochs[peer]
	if !ok { // a neighbour says its epoch when an agent gets to know it
		now, _ := k.epochOf(peer, c.Now())
		epoch = epochName(now)
	}
	out, _ := k.runTrains(c, peer, epoch, 1, p.Exchanges, 0)
	if len(out.Trains) == 0 {
		return
	}
	a.reports++
	out.Report, out.Dropped = a.reports, a.dropped
	if len(a.unacked) == maxUnacked {
		a.dropped++
		a.unacked = a.unacked[1:]
	}
	a.unacked = append(a.unacked, out)
	k.send(c, a, 0, out)
}

// runOrderedTrains runs the trains that the server ordered, and answers when they are done.
func (k *clientProtocol) runOrderedTrains(c *sim.Context, a *nodeClient, request uint64,
	p *control.Probe) {
	out := &control.Trains{Peer: p.Peer, PeerEpoch: p.PeerEpoch}
	took := sim.Time(p.Attempts) * sim.Time(p.Timeout_ns)
	if peer, ok := nodeOf(k.w, p.Peer); ok {
		var end sim.Time
		if out, end = k.runTrains(c, peer, p.PeerEpoch, p.Trains, p.Exchanges,
			sim.Time(p.Gap_ns)); out.Error == "" {
			took = end - c.Now()
		}
	}
	if out.Error != "" || len(out.Trains) == 0 {
		out.Error, out.Lost = "no answer", uint64(p.Attempts)
	}
	k.sendLater(c, a, took, request, out)
}

// runTrains runs trains with a peer. It returns the time at which they end.
func (k *clientProtocol) runTrains(c *sim.Context, peer sim.Node, peerEpoch string, trains,
	exchanges int, gap sim.Time) (out *control.Trains, at sim.Time) {
	n := c.Node()
	at = c.Now()
	epoch, ends := k.epochOf(n, at)
	theirs, peerEnds := k.epochOf(peer, at)
	out = &control.Trains{Peer: nameOf(peer), PeerEpoch: peerEpoch, Epoch: epochName(epoch)}
	if !c.Up(peer) || epochName(theirs) != peerEpoch {
		out.Error = "no answer"
		return out, at
	}
	for range trains {
		all, end := k.fleet.Exchange(c.Random(), at, exchanges, k.stampFor(n, peer, epoch),
			k.stampFor(peer, n, theirs))
		at = end + gap
		if end >= min(ends, peerEnds) {
			out.Error = "a counter was interrupted"
			return out, at
		}
		if len(all) > 0 {
			out.Trains = append(out.Trains, control.Train{KernelStamps: uint64(4 * len(all)),
				Exchanges: all})
		}
		out.Lost += uint64(exchanges - len(all))
	}
	return out, at
}
