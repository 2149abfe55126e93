package agents

import (
	"encoding/binary"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/cloudprofiler/cloudprofiler/overlay"
	"github.com/cloudprofiler/cloudprofiler/overlay/wire"
	"github.com/cloudprofiler/cloudprofiler/sim"
	"github.com/cloudprofiler/cloudprofiler/sim/library"
	"github.com/cloudprofiler/cloudprofiler/tscratio"
)

// Classes are the classes of agents, for the configuration of a simulation.
func Classes() map[string]library.Class {
	return map[string]library.Class{"OverlayAgents": newFleet, "AgentGraph": newGraph,
		"AgentGrowth": newGrowth, "AgentJoin": newJoin, "AgentObserver": newObserver}
}

// Fleet is the protocol of all agents. Other protocols of a node may use the agent of that node.
type Fleet struct {
	w   *sim.World
	own uint8
	tr  sim.Transport

	degree    int
	budget    sim.Time // time between two trains of an agent
	exchanges int
	loss      float64 // part of the exchanges that is lost
	base      sim.Time
	jitter    float64 // mean, in ns
	sample    int     // one agent out of this number keeps what its trains prove
	keep      sim.Time
	idle      bool // another protocol decides when agents run trains

	observers int
	shards    []*members
	names     []overlay.Name // by shard: the names of all its nodes, one after the other
}

// members are the agents of a shard. Only the shard's worker uses them.
type members struct {
	agents   []agent
	cx       *sim.Context // context of the agent whose turn it is
	messages uint64
	trains   uint64
	reported []reported              // by observer
	warming  [2 * soon]*overlay.Node // of the last events that were warmed
	warmed   uint
}

// reported has the counts at an observer's last report.
type reported struct {
	at       sim.Time
	messages uint64
}

// agent is one node. It implements overlay.Transport.
type agent struct {
	in    *members
	f     *Fleet
	n     sim.Node
	turn  uint32
	wake  sim.Time   // when the next Tick comes; 0: no timer runs
	draws sim.Stream // of the graph
	graph *overlay.Node
	pairs []*pair // only agents of the sample have them
}

// pair keeps what the trains between an agent and a neighbour have proven.
type pair struct {
	peer  sim.Node
	first sim.Time
	last  sim.Time
	of    *tscratio.Pair
}

// These are the kinds of an agent's events.
const (
	tick    = 1
	probe   = 2
	message = 3
)

func newFleet(b *library.Builder, key string) any {
	f := b.File
	return &Fleet{w: b.W, own: b.Own(key), tr: b.Transport(key + ".transport"),
		degree:    int(f.Int(key+".degree", 2, overlay.MaxDegree, 7)),
		budget:    sim.Time(f.Int(key+".train", 1e6, math.MaxInt64, 500e6)),
		exchanges: int(f.Int(key+".exchanges", 1, 1000, 5)),
		loss:      f.Float(key+".loss", 0, 1, 0),
		base:      sim.Time(f.Int(key+".base", 0, 1e12, 20e3)),
		jitter:    f.Float(key+".jitter", 0, 1e12, 10e3),
		sample:    int(f.Int(key+".sample", 1, math.MaxInt32, 1000)),
		keep:      sim.Time(f.Int(key+".keep", 1e9, math.MaxInt64, 60e9))}
}

// name returns the name of a node: its number in four bytes. The nodes of a shard share one string.
func (f *Fleet) name(n sim.Node) overlay.Name {
	i := 4 * (n % sim.ShardNodes)
	return f.names[n/sim.ShardNodes][i : i+4]
}

func node(name overlay.Name) sim.Node {
	return sim.Node(binary.BigEndian.Uint32([]byte(name)))
}

func (f *Fleet) of(n sim.Node) *agent {
	return &f.shards[n/sim.ShardNodes].agents[n%sim.ShardNodes]
}

// Init makes a node an agent. The agent joins the graph through a random member.
func (f *Fleet) Init(c *sim.Context) {
	var contacts []overlay.Name
	for range 100 {
		if to := f.w.Living(c.Random().Int(f.w.Size())); to < c.Node() {
			contacts = []overlay.Name{f.name(to)}
			break
		}
	}
	f.start(c, overlay.Config{Contacts: contacts})
}

// agent returns a node's agent, which knows to which node it belongs.
func (f *Fleet) agent(n sim.Node) *agent {
	a := f.of(n)
	a.in, a.f, a.n = f.shards[n/sim.ShardNodes], f, n
	return a
}

// join gives an agent its part in the graph.
func (a *agent) join(o overlay.Config) (err error) {
	a.draws = sim.NewStream(a.f.w.Seed^0x0e41a, uint64(a.n))
	o.Name, o.Degree, o.Transport = a.f.name(a.n), a.f.degree, a
	o.Random = rand.New(&a.draws)
	a.graph, err = overlay.New(o)
	return err
}

// start makes a node an agent.
func (f *Fleet) start(c *sim.Context, o overlay.Config) {
	a := f.agent(c.Node())
	if err := a.join(o); err != nil {
		c.Fail("%w", err)
		return
	}
	a.in.cx = c
	a.graph.Tick(time.Duration(c.Now()))
	a.watch(c)
	if !f.idle {
		c.After(1+sim.Time(c.Random().Below(uint64(f.budget))), f.own, probe, 0)
	}
}

// LeaveTrains says that another protocol decides when agents run trains.
func (f *Fleet) LeaveTrains() { f.idle = true }

// Start makes a node an agent. The agent joins the graph through some members.
func (f *Fleet) Start(c *sim.Context, members []sim.Node) {
	o := overlay.Config{}
	for _, n := range members {
		o.Contacts = append(o.Contacts, f.name(n))
	}
	f.start(c, o)
}

// LeastDelay returns the shortest time that a packet between two agents takes.
func (f *Fleet) LeastDelay() sim.Time { return f.base }

// Degree returns how many outgoing neighbours an agent wants.
func (f *Fleet) Degree() int { return f.degree }

// Outs returns the outgoing neighbours of the agent of a node, in order.
func (f *Fleet) Outs(n sim.Node) (all []sim.Node) {
	if f.of(n).graph == nil {
		return nil
	}
	outs, _ := f.of(n).graph.Neighbours()
	slices.Sort(outs)
	for _, name := range outs {
		all = append(all, node(name))
	}
	return all
}

// leastWait is the shortest time between two Ticks.
const leastWait = sim.Time(time.Millisecond)

// watch makes sure that the next Tick comes in time.
func (a *agent) watch(c *sim.Context) {
	at := max(sim.Time(a.graph.Next()), c.Now()+leastWait)
	if a.wake > c.Now() && a.wake <= at {
		return
	}
	a.wake = at
	if at < endless {
		c.After(at-c.Now(), a.f.own, tick, 0)
	}
}

// endless is later than every simulation.
const endless = sim.Time(math.MaxInt64 / 2)

// Send sends a message of the graph.
func (a *agent) Send(to overlay.Name, m overlay.Message) {
	a.in.messages++
	a.in.cx.SendValue(a.f.tr, node(to), a.f.own, message, m)
}

// soon is the number of events between two steps of Warm for one agent. In this time the core
// fetches from memory what the first step asked for.
const soon = 4

// Warm reads the beginning of the state of the agent that an event is for. It also reads further
// parts of the states that two earlier events need.
func (f *Fleet) Warm(e *sim.Event) uint64 {
	if e.Plain() == probe && !f.sampled(e.To) {
		return 0
	}
	s := f.shards[e.To/sim.ShardNodes]
	s.warmed++
	now := &s.warming[s.warmed%uint(len(s.warming))]
	before, sum := *now, uint64(0)
	*now = s.agents[e.To%sim.ShardNodes].graph
	if before != nil {
		sum = uint64(before.Touch(1))
	}
	if g := s.warming[(s.warmed-soon)%uint(len(s.warming))]; g != nil {
		sum += uint64(g.Touch(0))
	}
	return sum
}

func (f *Fleet) Receive(c *sim.Context, e *sim.Event) {
	if e.Plain() == probe && !f.sampled(e.To) { // it counts, but keeps nothing
		f.shards[e.To/sim.ShardNodes].trains++
		c.After(f.budget, f.own, probe, 0)
		return
	}
	a := f.of(e.To)
	if a.graph == nil && f.idle { // the server named the node to others before it became an agent
		c.Take(e)
		return
	}
	if a.graph == nil {
		c.Fail("the node is not an agent: use the initialiser AgentJoin or the control AgentGrowth")
		return
	}
	now := time.Duration(c.Now())
	switch e.Plain() {
	case tick:
		if a.wake == c.Now() {
			a.wake = 0
			a.in.cx = c
			a.graph.Tick(now)
			a.watch(c)
		}
	case probe:
		a.probe(c)
		c.After(f.budget, f.own, probe, 0)
	case message:
		m, ok := c.Take(e).(overlay.Message)
		if !ok {
			c.Fail("an agent got an event that is not a message of the graph")
			return
		}
		a.in.cx = c
		a.graph.Receive(now, f.name(e.From), m)
		a.watch(c)
	}
}

// sampled reports whether the agent of a node keeps what its trains prove.
func (f *Fleet) sampled(n sim.Node) bool { return int(n)%f.sample == 0 }

// probe runs a train with the next neighbour.
func (a *agent) probe(c *sim.Context) {
	a.in.trains++
	a.turn++
	outs, _ := a.graph.Neighbours()
	if len(outs) == 0 {
		return
	}
	slices.Sort(outs)
	peer := node(outs[int(a.turn)%len(outs)])
	if !c.Up(peer) {
		return
	}
	if err := a.train(c, peer); err != nil {
		c.Fail("train with node %d: %w", peer, err)
	}
}

func (a *agent) train(c *sim.Context, peer sim.Node) error {
	i := slices.IndexFunc(a.pairs, func(p *pair) bool { return p.peer == peer })
	if i < 0 {
		a.pairs = slices.DeleteFunc(a.pairs, func(p *pair) bool {
			return c.Now()-p.last > a.f.keep || !c.Up(p.peer)
		})
		p, err := tscratio.NewPair(Described("a"), Described("b"), tscratio.DefaultAssumptions())
		if err != nil {
			return err
		}
		i = len(a.pairs)
		a.pairs = append(a.pairs, &pair{peer: peer, of: p, first: c.Now()})
	}
	mine, theirs := CounterOf(a.f.w, a.n), CounterOf(a.f.w, peer)
	exchanges, at := a.f.Exchange(c.Random(), c.Now(), a.f.exchanges,
		func(t sim.Time, _ bool) uint64 { return mine.At(t) },
		func(t sim.Time, _ bool) uint64 { return theirs.At(t) })
	if len(exchanges) == 0 {
		return nil
	}
	a.pairs[i].last = at
	return a.pairs[i].of.Add(tscratio.Train{By: tscratio.StartedByA, Exchanges: exchanges})
}

// A Stamp returns the stamp of a packet that leaves a node or reaches it.
type Stamp func(at sim.Time, leaves bool) uint64

// Exchange runs a train over a path of the fleet. It is given the number of exchanges and the time
// at which the train begins. It returns the exchanges that were not lost, and when the train ends.
func (f *Fleet) Exchange(
	s *sim.Stream, at sim.Time, n int, mine, theirs Stamp,
) (all []tscratio.Exchange, end sim.Time) {
	packet := func() {
		at += f.base + sim.Time(-math.Log(1-s.Float())*f.jitter)
	}
	for range n {
		var e tscratio.Exchange
		e.Sent = tscratio.At(mine(at, true))
		packet()
		e.Received = tscratio.At(theirs(at, false))
		at += 3000
		e.Answered = tscratio.At(theirs(at, true))
		packet()
		e.Returned = tscratio.At(mine(at, false))
		at += 2000
		if f.loss == 0 || s.Float() >= f.loss {
			all = append(all, e)
		}
	}
	return all, at
}

// EncodeValue encodes a message of the graph as it travels in a real fleet.
func (f *Fleet) EncodeValue(to []byte, v any) ([]byte, error) { return wire.Encode(to, v) }

func (f *Fleet) DecodeValue(from []byte) (any, error) {
	v, err := wire.Decode(from)
	if _, ok := v.(overlay.Message); err == nil && !ok {
		err = fmt.Errorf("decode message: %T is not a message of the graph", v)
	}
	return v, err
}

// fleetOf returns the agents that a key names.
func fleetOf(b *library.Builder, key string) *Fleet {
	f, _ := library.Find[*Fleet](b, key, "is not of the class OverlayAgents")
	return f
}

// A starter is a protocol of nodes that join: the agents, or what starts them.
type starter interface{ Init(c *sim.Context) }

// initOf returns the protocol that a key names, for nodes that join.
func initOf(b *library.Builder, key string) starter {
	s, _ := library.Find[starter](b, key, "is neither agents nor their clients")
	return s
}

// joiner turns nodes into agents: those that exist at the beginning, and those that join by churn.
type joiner struct{ f starter }

func newJoin(b *library.Builder, key string) any { return joiner{initOf(b, key+".protocol")} }

func (j joiner) Init(c *sim.Context) { j.f.Init(c) }

// growth lets agents join until there are enough. At most a quarter of the present number joins at
// once.
type growth struct {
	f    starter
	size int
}

func newGrowth(b *library.Builder, key string) any {
	return &growth{initOf(b, key+".protocol"), int(b.File.MustInt(key+".size", 1, 1<<30))}
}

func (g *growth) Run(w *sim.World, _ *sim.Stream) (bool, error) {
	add := min(max(w.Size()/4, 1), g.size-w.Size())
	if add <= 0 {
		return false, nil
	}
	first, err := w.Join(add)
	if err != nil {
		return false, err
	}
	return false, w.Each(first, sim.Node(w.Joined()), g.f.Init)
}
