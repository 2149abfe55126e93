package sim

import (
	"fmt"
	"math/bits"
)

// A Protocol is one kind of behaviour that all nodes have, with the state of each node for this
// behaviour. Receive is called for each event of a node. It may change only the state of that node,
// because other workers may call it for other nodes at the same time.
type Protocol interface {
	Receive(c *Context, e *Event)
}

// A Cycled protocol also acts once in each cycle of a node.
type Cycled interface {
	NextCycle(c *Context)
}

// A Direct protocol may read and change the state of other nodes. With such a protocol, the network
// has one worker, which proceeds from one moment to the next.
type Direct interface {
	Direct() bool
}

// A Linkable is a protocol that has the neighbours of each node.
type Linkable interface {
	// Neighbours returns the neighbours of a node. The caller must not keep the slice.
	Neighbours(n Node) []Node
	// Link adds a neighbour, unless the node has it already, or has no room. It reports whether it
	// added one.
	Link(n, neighbour Node) bool
}

// A Valued protocol has a number for each node. Initialisers set it, and observers read it.
type Valued interface {
	Value(n Node) float64
	SetValue(n Node, v float64)
}

// Stateful protocols have state that is kept in checkpoints and moves with its shard.
type Stateful interface {
	Parts() []Part
}

// A Warmer reads some of the state that an event will need, so that the state is in the cache. It
// returns any number that depends on this state, so that the compiler keeps the read.
type Warmer interface {
	Warm(e *Event) uint64
}

// A Grower is told how many shards the whole network has, before a node of a new shard is used.
// This happens in each process. No worker runs meanwhile.
type Grower interface {
	Grow(shards int)
}

// A Mourner is told which nodes of this process died. At the time of the call, the node is no
// longer up, and no worker runs.
type Mourner interface {
	Died(n Node)
}

// A Codec encodes the values that the events of a protocol carry.
type Codec interface {
	EncodeValue(to []byte, v any) ([]byte, error)
	DecodeValue(from []byte) (any, error)
}

// A World is a network of nodes, their protocols and the events to come. Only the goroutine that
// called Run may use it, and only between two windows.
type World struct {
	Seed uint64
	// End is when the simulation ends. Events at that time no longer happen.
	End Time

	protocols []Protocol
	cycles    []Cycle // by protocol
	warmers   []Warmer
	controls  []*Scheduled
	parts     []Part

	turns   nodeTurns
	shards  []*nodeShard // nil: the shard is in another process
	owners  []int        // number of the worker, or of the process, that has the shard
	workers []*shardWorker

	joined int
	up     []uint64 // one bit for each node
	living []Node   // in the order in which the cycle engine visits them; nil: by number

	now       timeAndRound
	posted    uint32 // number of events that controls posted
	lookahead Time
	shift     uint8 // of the queues: a bucket has 1<<shift ns
	deaths    bool  // a node has died
	dying     deathTimes
	spared    map[Node]bool // nodes that do not die
	direct    bool
	stopped   bool
	over      bool         // the simulation has ended, although events are left
	finishing bool         // the controls that are due at the end run
	happened  timeAndRound // all events before it have happened
	injected  uint32
	done      Time // time at which RunEach last called its function
	windows   uint64
	loop      *Context // context of the cycle engine and of Post
	exchange  Exchange
}

// A Cycle says when a protocol's cycles begin at a node.
type Cycle struct {
	Step, From, Until Time
}

// deathTimes says when nodes died, since this process began or went on from a checkpoint.
type deathTimes struct {
	first, last Time // when nodes died first and last
	later       int  // number of nodes that died after the first time
	any         bool
}

// Deaths returns how many nodes died each second, on average. It returns false if all deaths were
// at the same time.
func (w *World) Deaths() (perSecond float64, ok bool) {
	d := &w.dying
	return float64(d.later) / (float64(d.last-d.first) / 1e9), d.last > d.first
}

// nodeShard has the events of ShardNodes nodes.
type nodeShard struct {
	index  int
	queue  eventQueue
	values []any // values that events carry
	free   []uint32
	events uint64 // number of events that happened
	// balanced is the number of events at the time when load was last balanced.
	balanced uint64
}

// keepValue stores a value and returns its number.
func (s *nodeShard) keepValue(v any) uint64 {
	if n := len(s.free); n > 0 {
		i := s.free[n-1]
		s.free = s.free[:n-1]
		s.values[i] = v
		return uint64(i)
	}
	s.values = append(s.values, v)
	return uint64(len(s.values) - 1)
}

// takeValue returns a value and forgets it.
func (s *nodeShard) takeValue(i uint64) any {
	v := s.values[i]
	s.values[i] = nil
	s.free = append(s.free, uint32(i))
	return v
}

// New returns a world without nodes. workers is the number of goroutines that work on it.
func New(seed uint64, workers int) *World {
	w := &World{Seed: seed, End: Never, lookahead: Never}
	for i := range max(workers, 1) {
		w.workers = append(w.workers, &shardWorker{w: w, index: i, context: Context{w: w}})
		w.workers[i].context.k = w.workers[i]
		w.workers[i].earliest = timeAndRound{at: Never}
	}
	w.loop = &w.workers[0].context
	w.parts = []Part{&w.turns}
	return w
}

// AddProtocol adds a protocol and returns its number.
func (w *World) AddProtocol(p Protocol, c Cycle) uint8 {
	w.protocols = append(w.protocols, p)
	w.cycles = append(w.cycles, c)
	warmer, _ := p.(Warmer)
	w.warmers = append(w.warmers, warmer)
	if s, ok := p.(Stateful); ok {
		w.parts = append(w.parts, s.Parts()...)
	}
	if d, ok := p.(Direct); ok && d.Direct() {
		w.direct = true
	}
	return uint8(len(w.protocols) - 1)
}

// Direct reports whether a protocol may read and change the state of other nodes.
func (w *World) Direct() bool { return w.direct }

// Protocol returns a protocol by its number.
func (w *World) Protocol(number uint8) Protocol { return w.protocols[number] }

// Within makes the lookahead at most the given time. It is called for each transport, with the
// transport's shortest delay.
func (w *World) Within(d Time) { w.lookahead = min(w.lookahead, d) }

// Now returns the time.
func (w *World) Now() Time { return w.now.at }

// Passed returns the time before which all events have happened. Only controls may call it.
func (w *World) Passed() Time {
	if w.finishing && !w.stopped {
		return w.End
	}
	return w.now.at
}

// Joined returns how many nodes have joined so far, including dead ones.
func (w *World) Joined() int { return w.joined }

// Size returns the number of living nodes.
func (w *World) Size() int {
	if w.living == nil {
		return w.joined
	}
	return len(w.living)
}

// Living returns one of the living nodes. The living nodes are numbered from 0 to Size-1. A death
// changes these numbers.
func (w *World) Living(i int) Node {
	if w.living == nil {
		return Node(i)
	}
	return w.living[i]
}

// Up reports whether a node lives.
func (w *World) Up(n Node) bool { return !w.deaths || w.up[n>>6]&(1<<(n&63)) != 0 }

// Shards returns the number of shards, and Here reports whether a shard is in this process.
func (w *World) Shards() int         { return len(w.owners) }
func (w *World) Here(shard int) bool { return w.shards[shard] != nil }

// Has reports whether a node's state is in this process.
func (w *World) Has(n Node) bool { return w.shards[shardOf(n)] != nil }

// Join adds nodes and returns the first of their numbers.
func (w *World) Join(nodes int) (Node, error) {
	if nodes < 0 || uint64(w.joined)+uint64(nodes) >= uint64(outsideNode) {
		return 0, fmt.Errorf("join %d nodes: a simulation has at most %d", nodes, outsideNode)
	}
	first := Node(w.joined)
	w.joined += nodes
	for len(w.owners)*ShardNodes < w.joined {
		w.addShard()
	}
	for n := first; int(n) < w.joined; n++ {
		for len(w.up) <= int(n>>6) {
			w.up = append(w.up, 0)
		}
		w.up[n>>6] |= 1 << (n & 63)
		if w.living != nil {
			w.living = append(w.living, n)
		}
	}
	return first, nil
}

func (w *World) addShard() {
	if w.registerShard() {
		w.allocate(len(w.owners) - 1)
	}
}

// registerShard gives the next shard an owner, and reports whether this owner is the present
// process.
func (w *World) registerShard() (here bool) {
	s := len(w.owners)
	if s == 0 && w.lookahead != Never && !w.direct {
		w.shift = uint8(max(bits.Len64(uint64(w.lookahead/2))-1, 0))
	}
	owner := s % len(w.workers)
	here = true
	if w.exchange != nil {
		owner = s % w.exchange.Processes()
		here = owner == w.exchange.Process()
	}
	w.owners = append(w.owners, owner)
	w.shards = append(w.shards, nil)
	for _, k := range w.workers {
		k.out = append(k.out, postedEvents{})
	}
	for _, p := range w.protocols {
		if g, ok := p.(Grower); ok {
			g.Grow(len(w.owners))
		}
	}
	return here
}

func (w *World) allocate(s int) {
	w.shards[s] = &nodeShard{index: s, queue: newQueue(w.shift)}
	w.shards[s].queue.advanceTo(w.now.at)
	for _, p := range w.parts {
		p.Allocate(s)
	}
}

// listLiving builds the list of living nodes.
func (w *World) listLiving() {
	if w.living == nil {
		w.living = make([]Node, w.joined)
		for i := range w.living {
			w.living[i] = Node(i)
		}
	}
}

// Spare protects a node, so that Kill never makes it die.
func (w *World) Spare(n Node) {
	if w.spared == nil {
		w.spared = map[Node]bool{}
	}
	w.spared[n] = true
}

// Kill makes a living node die, so its events no longer happen. The node is given by its number
// among the living nodes, as for Living. If this node is spared, the next living node that is not
// spared dies instead. If all are spared, none dies.
func (w *World) Kill(i int) {
	w.listLiving()
	for range len(w.spared) {
		if w.spared[w.living[i]] {
			i = (i + 1) % len(w.living)
		}
	}
	if w.spared[w.living[i]] {
		return
	}
	if d := &w.dying; !d.any {
		*d = deathTimes{first: w.now.at, last: w.now.at, any: true}
	} else if d.last = w.now.at; d.last > d.first {
		d.later++
	}
	w.deaths = true
	n := w.living[i]
	last := len(w.living) - 1
	w.living[i] = w.living[last]
	w.living = w.living[:last]
	w.up[n>>6] &^= 1 << (n & 63)
	for _, p := range w.protocols {
		if m, ok := p.(Mourner); ok && w.Has(n) {
			m.Died(n)
		}
	}
}

// Shuffle changes the order of the living nodes.
func (w *World) Shuffle(s *Stream) {
	w.listLiving()
	for i := len(w.living) - 1; i > 0; i-- {
		j := s.Int(i + 1)
		w.living[i], w.living[j] = w.living[j], w.living[i]
	}
}

// Each calls a function with the context of each living node in a range. The parameter after is the
// first node behind the range. The method visits only nodes of this process, and may call the
// function for several nodes at the same time.
func (w *World) Each(first, after Node, f func(c *Context)) error {
	return w.forEachWorker(func(k *shardWorker) {
		for s := shardOf(first); s < len(w.shards) && Node(s<<shardBits) < after; s++ {
			if w.shards[s] == nil || w.workerOf(s) != k.index {
				continue
			}
			k.context.shard = w.shards[s]
			begin := max(first, Node(s<<shardBits))
			for n := begin; n < min(after, Node((s+1)<<shardBits)) && k.context.err == nil; n++ {
				if w.Up(n) {
					k.context.beginTurn(n, w.now)
					f(&k.context)
					k.context.endTurn()
				}
			}
		}
	})
}

// Post posts an event from outside the network.
func (w *World) Post(after Time, to Node, protocol, kind uint8, word uint64) {
	w.posted++
	s := w.shards[shardOf(to)]
	if s == nil {
		return
	}
	round := uint16(0)
	if after == 0 {
		round = w.now.round
	}
	s.queue.push(Event{At: w.now.at + after, round: round, To: to, From: outsideNode,
		number: w.posted, Protocol: protocol, Kind: kind, Word: word})
}
