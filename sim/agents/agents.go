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

// Classes returns the classes of this package, which the configuration of a simulation can name.
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
	shards    []*shardAgents
	names     []overlay.Name // by shard: the names of all its nodes, one after the other
}

// shardAgents are the agents of a shard. Only the shard's worker uses them.
type shardAgents struct {
	f        *Fleet
	agents   []simulatedAgent
	cx       *sim.Context // context of the agent whose turn it is
	messages uint64
	trains   uint64
	reported []lastReport                // by observer
	warming  [4 * readAhead]warmingEvent // of the last events that were warmed
	warmed   uint
	kept     map[sim.Node]*keptState // of the agents of the sample
	// first has, for each living agent outside the sample, the time of its first train. The trains
	// of these agents are only counted, so they need no events. 0: the agent is in the sample, or
	// runs no trains.
	first []sim.Time
}

// lastReport has the time of an observer's last report, and the number of messages until then.
type lastReport struct {
	at       sim.Time
	messages uint64
}

// simulatedAgent is the agent of one node. It implements overlay.Transport. It fills one cache
// line.
type simulatedAgent struct {
	in    *shardAgents
	graph *overlay.Node
	wake  sim.Time   // when the next Tick comes; 0: no timer runs
	next  sim.Time   // when the graph next has something to do
	draws sim.Stream // of the graph
	n     sim.Node
}

// warmingEvent describes an event that will soon happen. The core is fetching parts of the state of
// the event's agent from memory.
type warmingEvent struct {
	a     *simulatedAgent
	graph *overlay.Node // nil: nothing is read
	timer sim.Time      // when a timer ends; sim.Never: the event is no timer
}

// keptState is what an agent of the sample keeps.
type keptState struct {
	turn  uint32
	pairs []*trainPair
}

// trainPair keeps what the trains between an agent and a neighbour have proven.
type trainPair struct {
	peer  sim.Node
	first sim.Time
	last  sim.Time
	of    *tscratio.Pair
}

// These are the kinds of an agent's events.
const (
	tickEvent    = 1
	probeEvent   = 2
	messageEvent = 3
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

// nameOf returns the name of a node: its number in four bytes. The nodes of a shard share one
// string.
func (f *Fleet) nameOf(n sim.Node) overlay.Name {
	i := 4 * (n % sim.ShardNodes)
	return f.names[n/sim.ShardNodes][i : i+4]
}

func node(name overlay.Name) sim.Node {
	return sim.Node(binary.BigEndian.Uint32([]byte(name)))
}

func (f *Fleet) of(n sim.Node) *simulatedAgent {
	return &f.shards[n/sim.ShardNodes].agents[n%sim.ShardNodes]
}

// Init makes a node an agent. The agent joins the graph through a random member.
func (f *Fleet) Init(c *sim.Context) {
	var contacts []overlay.Name
	for range 100 {
		if to := f.w.Living(c.Random().Int(f.w.Size())); to < c.Node() {
			contacts = []overlay.Name{f.nameOf(to)}
			break
		}
	}
	f.startAgent(c, overlay.Config{Contacts: contacts})
}

// agentOf returns a node's agent. It first stores the agent's shard and node in the agent.
func (f *Fleet) agentOf(n sim.Node) *simulatedAgent {
	a := f.of(n)
	a.in, a.n = f.shards[n/sim.ShardNodes], n
	return a
}

// joinGraph makes an agent a member of the graph.
func (a *simulatedAgent) joinGraph(o overlay.Config) (err error) {
	f := a.in.f
	a.draws = sim.NewStream(f.w.Seed^0x0e41a, uint64(a.n))
	o.Name, o.Degree, o.Transport = f.nameOf(a.n), f.degree, a
	o.Random = rand.New(&a.draws)
	a.graph, err = overlay.New(o)
	return err
}

// startAgent makes a node an agent.
func (f *Fleet) startAgent(c *sim.Context, o overlay.Config) {
	a := f.agentOf(c.Node())
	if err := a.joinGraph(o); err != nil {
		c.Fail("%w", err)
		return
	}
	a.in.cx = c
	a.graph.Tick(time.Duration(c.Now()))
	a.watchGraph(c)
	if f.idle {
		return
	}
	wait := 1 + sim.Time(c.Random().Below(uint64(f.budget)))
	if f.isSampled(a.n) {
		c.After(wait, f.own, probeEvent, 0)
	} else {
		a.in.first[a.n%sim.ShardNodes] = c.Now() + wait
	}
}

// uncountedTrains returns how many trains an agent outside the sample has run.
func (s *shardAgents) uncountedTrains(n sim.Node) uint64 {
	first, now := s.first[n%sim.ShardNodes], s.f.w.Passed()
	if first == 0 || first >= now {
		return 0
	}
	return 1 + uint64((now-1-first)/s.f.budget)
}

// Died adds the trains of a node that died to the trains of its shard. It forgets the rest of the
// agent's state, because nobody reads it any more. A long simulation has many dead agents.
func (f *Fleet) Died(n sim.Node) {
	s := f.shards[n/sim.ShardNodes]
	s.trains += s.uncountedTrains(n)
	s.first[n%sim.ShardNodes] = 0
	s.agents[n%sim.ShardNodes].graph = nil
	delete(s.kept, n)
}

// LeaveTrains keeps agents from running trains by themselves. Another protocol decides when they
// run some.
func (f *Fleet) LeaveTrains() { f.idle = true }

// Start makes a node an agent. The agent joins the graph through some members.
func (f *Fleet) Start(c *sim.Context, members []sim.Node) {
	o := overlay.Config{}
	for _, n := range members {
		o.Contacts = append(o.Contacts, f.nameOf(n))
	}
	f.startAgent(c, o)
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

// watchGraph asks the graph for the time at which the graph next has something to do, and makes
// sure that a Tick comes then.
func (a *simulatedAgent) watchGraph(c *sim.Context) {
	a.next = sim.Time(a.graph.Next())
	a.waitForGraph(c)
}

// waitForGraph makes sure that a Tick comes when the graph has something to do.
func (a *simulatedAgent) waitForGraph(c *sim.Context) {
	at := max(a.next, c.Now()+leastWait)
	if a.wake > c.Now() && a.wake <= at {
		return
	}
	a.wake = at
	if at < afterTheEnd {
		c.After(at-c.Now(), a.in.f.own, tickEvent, 0)
	}
}

// afterTheEnd is a time after the end of every simulation.
const afterTheEnd = sim.Time(math.MaxInt64 / 2)

// Send sends a message of the graph.
func (a *simulatedAgent) Send(to overlay.Name, m overlay.Message) {
	a.in.messages++
	a.in.cx.SendValue(a.in.f.tr, node(to), a.in.f.own, messageEvent, m)
}

// readAhead is the number of calls of Warm from one step to the next for the same event. Warm reads
// the state of an agent in four steps. Between two of these steps the core fetches from memory what
// the earlier step asked for.
const readAhead = 4

// Warm does the first step for an event: it reads the beginning of the state of the event's agent.
// It also does one later step for each of three earlier events.
func (f *Fleet) Warm(e *sim.Event) uint64 {
	s := f.shards[e.To/sim.ShardNodes]
	s.warmed++
	now := warmingEvent{a: &s.agents[e.To%sim.ShardNodes], timer: sim.Never}
	if e.Plain() == tickEvent {
		now.timer = e.At
	}
	s.warming[s.warmed%uint(len(s.warming))] = now
	sum := overlay.Time(now.a.next)
	if b := s.warmingBefore(1); b.a != nil && b.a.next <= b.timer && b.a.graph != nil {
		b.graph = b.a.graph
		sum += b.graph.Touch(0)
	}
	for step := 1; step < 3; step++ {
		if g := s.warmingBefore(step + 1).graph; g != nil {
			sum += g.Touch(step)
		}
	}
	return uint64(sum)
}

// warmingBefore returns the event whose warming began the given number of steps ago.
func (s *shardAgents) warmingBefore(steps int) *warmingEvent {
	return &s.warming[(s.warmed-uint(steps)*readAhead)%uint(len(s.warming))]
}

func (f *Fleet) Receive(c *sim.Context, e *sim.Event) {
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
	case tickEvent:
		if a.wake == c.Now() {
			a.wake = 0
			if a.next > c.Now() { // what the timer was for has happened already
				a.waitForGraph(c)
				return
			}
			a.in.cx = c
			a.graph.Tick(now)
			a.watchGraph(c)
		}
	case probeEvent:
		a.runNextTrain(c)
		c.After(f.budget, f.own, probeEvent, 0)
	case messageEvent:
		m, ok := c.Take(e).(overlay.Message)
		if !ok {
			c.Fail("an agent got an event that is not a message of the graph")
			return
		}
		a.in.cx = c
		a.graph.Receive(now, f.nameOf(e.From), m)
		a.watchGraph(c)
	}
}

// isSampled reports whether the agent of a node keeps what its trains prove.
func (f *Fleet) isSampled(n sim.Node) bool { return int(n)%f.sample == 0 }

// runNextTrain runs a train with the next neighbour.
func (a *simulatedAgent) runNextTrain(c *sim.Context) {
	a.in.trains++
	k := a.in.kept[a.n]
	if k == nil {
		k = &keptState{}
		a.in.kept[a.n] = k
	}
	k.turn++
	outs, _ := a.graph.Neighbours()
	if len(outs) == 0 {
		return
	}
	slices.Sort(outs)
	peer := node(outs[int(k.turn)%len(outs)])
	if !c.Up(peer) {
		return
	}
	if err := a.train(c, k, peer); err != nil {
		c.Fail("train with node %d: %w", peer, err)
	}
}

func (a *simulatedAgent) train(c *sim.Context, k *keptState, peer sim.Node) error {
	f := a.in.f
	i := slices.IndexFunc(k.pairs, func(p *trainPair) bool { return p.peer == peer })
	if i < 0 {
		k.pairs = slices.DeleteFunc(k.pairs, func(p *trainPair) bool {
			return c.Now()-p.last > f.keep || !c.Up(p.peer)
		})
		p, err := tscratio.NewPair(Described("a"), Described("b"), tscratio.DefaultAssumptions())
		if err != nil {
			return err
		}
		i = len(k.pairs)
		k.pairs = append(k.pairs, &trainPair{peer: peer, of: p, first: c.Now()})
	}
	mine, theirs := CounterOf(f.w, a.n), CounterOf(f.w, peer)
	exchanges, at := f.Exchange(c.Random(), c.Now(), f.exchanges,
		func(t sim.Time, _ bool) uint64 { return mine.At(t) },
		func(t sim.Time, _ bool) uint64 { return theirs.At(t) })
	if len(exchanges) == 0 {
		return nil
	}
	k.pairs[i].last = at
	return k.pairs[i].of.Add(tscratio.Train{By: tscratio.StartedByA, Exchanges: exchanges})
}

// A Stamp returns the stamp of a packet that leaves a node or reaches it.
type Stamp func(at sim.Time, leaves bool) uint64

// Exchange runs a train of n exchanges between two agents. The train begins at the time at.
// Exchange returns the exchanges that were not lost, and when the train ends.
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

// agentStarter is a protocol whose Init turns a node into an agent when the node joins: Fleet
// itself, or a protocol that starts the agents of a Fleet.
type agentStarter interface{ Init(c *sim.Context) }

// initOf returns the protocol that a key names, for nodes that join.
func initOf(b *library.Builder, key string) agentStarter {
	s, _ := library.Find[agentStarter](b, key, "is neither agents nor their clients")
	return s
}

// agentJoiner turns nodes into agents: those that exist at the beginning, and those that join by
// churn.
type agentJoiner struct{ f agentStarter }

func newJoin(b *library.Builder, key string) any { return agentJoiner{initOf(b, key+".protocol")} }

func (j agentJoiner) Init(c *sim.Context) { j.f.Init(c) }

// agentGrowth lets agents join until there are enough. Each run adds one agent, or at most a
// quarter of the present number.
type agentGrowth struct {
	f    agentStarter
	size int
}

func newGrowth(b *library.Builder, key string) any {
	return &agentGrowth{initOf(b, key+".protocol"), int(b.File.MustInt(key+".size", 1, 1<<30))}
}

func (g *agentGrowth) Run(w *sim.World, _ *sim.Stream) (bool, error) {
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
