package overlay

import (
	"fmt"
	"math/rand/v2"
	"slices"
)

// A Config configures a node.
type Config struct {
	Name      Name
	Degree    int        // neighbours in each direction, 2 to MaxDegree; equal on all nodes
	Random    *rand.Rand // this node's own; equal streams and equal calls give equal behaviour
	Transport Transport
	Contacts  []Name // members through which the node joins; empty on the first node

	// Match says whether a pattern matches a fact. If Match is nil, a pattern matches only the
	// equal fact.
	Match func(pattern, fact string) bool

	// MayTake says whether a node may take items of this node's queues. If MayTake is nil, each
	// node may.
	MayTake func(queue string, taker Name) bool

	// Outs and Ins are the neighbours of a node in a graph that exists already. They are for
	// simulations whose nodes do not join.
	Outs, Ins []Name
}

// A Node is one member of the graph. It is a state machine and starts no goroutine. Its owner calls
// Receive for each message, and Tick at the time that Next returns. One goroutine at a time may use
// it.
type Node struct {
	self      Name
	degree    int
	random    *rand.Rand
	transport Transport

	now, next Time

	outs  []*outEdge
	ins   []inEdge
	seeks []*seek
	asked []*request
	// offers is the number of edges that this node has offered to others and that nobody has
	// accepted or refused yet. Each counts as an edge of this node.
	offers int
	seen   recentRequests
	wants  []wantNote

	seekAt, repickAt, probeAt Time
	seekPause, pausedUntil    Time
	aloneSince                Time // since when all free ends are in one direction; or never
	checkAt, checkPause       Time // when to look for another part of the graph, and how often
	restarted                 bool // the last walk was lost
	joined                    bool // the node has had all its edges
	few                       bool // walks met the same nodes again and again, and none could help

	lost     []Name
	back     []Name // lost nodes that answered again
	failures []Time
	known    ring[Name]
	contacts []Name
	leaving  bool

	match       func(pattern, fact string) bool
	facts       []Fact
	hints       []hint
	advertiseAt Time
	searches    []*search

	heats, warmed    []Heat // of this node; what neighbours were told last
	warmAt, warmedAt Time
	climbing         []*climbs

	items   []*item // in the order in which they were put
	held    []*heldItem
	takings int // number of calls of Take that have not ended
	mayTake func(queue string, taker Name) bool

	budgets   []budget // those that are not full
	strangers budget
	blamed    []Blame
}

// New returns a node that has not joined yet. It sends nothing before the first Tick.
func New(c Config) (*Node, error) {
	switch {
	case !c.Name.valid():
		return nil, fmt.Errorf("new node: name %q: need 1 to %d bytes", c.Name, MaxName)
	case c.Degree < 2 || c.Degree > MaxDegree:
		return nil, fmt.Errorf("new node %q: degree %d: need 2 to %d", c.Name, c.Degree, MaxDegree)
	case c.Random == nil || c.Transport == nil:
		return nil, fmt.Errorf("new node %q: no random stream or no transport", c.Name)
	}
	for _, name := range slices.Concat(c.Contacts, c.Outs, c.Ins) {
		if !name.valid() {
			return nil, fmt.Errorf("new node %q: contact or neighbour %q: need 1 to %d bytes",
				c.Name, name, MaxName)
		}
	}
	if max(len(c.Outs), len(c.Ins)) > c.Degree {
		return nil, fmt.Errorf("new node %q: %d and %d neighbours: need at most %d", c.Name,
			len(c.Outs), len(c.Ins), c.Degree)
	}
	n := &Node{self: c.Name, degree: c.Degree, random: c.Random, transport: c.Transport,
		seekPause: SeekPause, aloneSince: neverTime, checkAt: neverTime, checkPause: CheckSoon,
		contacts: slices.Clone(c.Contacts), match: c.Match, mayTake: c.MayTake}
	if n.match == nil {
		n.match = func(pattern, fact string) bool { return pattern == fact }
	}
	n.beginWith(c.Outs, c.Ins)
	return n, nil
}

// beginWith gives a new node edges that exist already. It spreads the times of their pings at
// random.
func (n *Node) beginWith(outs, ins []Name) {
	all := make([]outEdge, len(outs)) // side by side in memory
	n.outs, n.ins = make([]*outEdge, 0, len(outs)), make([]inEdge, 0, len(ins))
	for i, name := range outs {
		all[i] = outEdge{peer: name, due: Time(n.random.Int64N(int64(PingPeriod)))}
		n.outs = append(n.outs, &all[i])
	}
	for _, name := range ins {
		n.ins = append(n.ins, inEdge{peer: name, expires: Lease})
	}
	n.joined = len(outs) == n.degree && len(ins) == n.degree
}

// Next returns the time at which the owner must call Tick. Each call of another method may make
// this time earlier.
func (n *Node) Next() Time { return n.next }

// Touch reads the state that Tick and Receive read first. The sum that it returns has no meaning. A
// simulator calls Touch for several nodes whose turn comes soon. The core then fetches their states
// from memory at the same time, and not one after the other. To fetch all of a node's state, call
// Touch with the step 0, later with 1, and later with 2.
func (n *Node) Touch(step int) (sum Time) {
	switch step {
	case 0:
		sum = n.next + Time(len(n.seen.all)) + n.probeAt + Time(len(n.known.values)) +
			n.advertiseAt + n.warmAt + Time(len(n.items)) + Time(len(n.budgets))
	case 1:
		for i := 0; i < len(n.ins); i += 2 {
			sum += n.ins[i].expires
		}
		if len(n.outs) > 0 && n.outs[0] != nil {
			sum++
		}
	case 2:
		for _, o := range n.outs {
			sum += o.due
		}
	}
	return sum
}

// Tick does what is due at the time now.
func (n *Node) Tick(now Time) {
	n.setTime(now)
	if n.now < n.next {
		return
	}
	n.askAgain()
	n.seen.forgetAll(n.timeInRetries())
	n.tickEdges()
	if !n.leaving {
		n.tickSeeks()
		n.tickLost()
		n.tickParts()
		n.tickFacts()
		n.tickSearches()
		n.tickQueue()
		n.tickHeat()
		n.tickClimbs()
	}
	n.next = max(n.deadline(), n.now+1)
}

// deadline returns the earliest time at which something is due.
func (n *Node) deadline() Time {
	at := neverTime
	for _, r := range n.asked {
		at = min(at, r.due)
	}
	if n.leaving {
		return at
	}
	for _, o := range n.outs {
		at = min(at, o.due)
	}
	for _, i := range n.ins {
		at = min(at, i.expires)
	}
	for _, s := range n.seeks {
		at = min(at, s.until)
	}
	for _, s := range n.searches {
		at = min(at, s.until)
	}
	for _, c := range n.climbing {
		at = min(at, c.until)
	}
	return min(at, n.queueDue(), n.advertiseAt, n.warmAt, n.seekAt, n.probeAt, n.repickAt,
		n.checkAt)
}

// Receive handles a message. Its second parameter is the node that sent the message, according to
// the transport.
func (n *Node) Receive(now Time, from Name, m Message) {
	n.setTime(now)
	if !from.valid() || from == n.self {
		return
	}
	switch m := m.(type) {
	case Ping:
		n.onPing(from, m)
	case Pong:
		n.onPong(from, m)
	case Drop:
		n.dropIn(from)
	case Probe:
		n.send(from, Alive{})
	case Alive:
		n.onAlive(from)
	case Ack:
		n.onAck(from, m)
	case Hop:
		n.onHop(from, m)
	case Grant:
		n.onGrant(from, m)
	case Revoke:
		n.onRevoke(from, m)
	case Handover:
		n.onHandover(from, m)
	case Leaving:
		n.onLeaving(from, m)
	case Hint:
		n.onHint(from, m)
	case Verify:
		n.onVerify(from, m)
	case Confirm:
		n.onConfirm(from, m)
	case Found:
		n.onFound(from, m)
	case Ended:
		n.onEnded(from, m)
	case Warm:
		n.onWarm(from, m)
	case Felt:
		n.onFelt(from, m)
	case Take:
		n.onTake(from, m)
	case Given:
		n.onGiven(from, m)
	case Keep:
		n.onKeep(from, m)
	}
}

// setTime sets the node's time, which never runs backwards.
func (n *Node) setTime(now Time) { n.now = max(n.now, now) }

// wakeAt makes the owner call Tick no later than at the given time.
func (n *Node) wakeAt(t Time) { n.next = min(n.next, t) }

func (n *Node) send(to Name, m Message) { n.transport.Send(to, m) }

// soonAfter returns a random moment that is later than now by at most the given time. So nodes that
// notice something at the same moment do not all act at the same moment.
func (n *Node) soonAfter(within Time) Time {
	return n.now + 1 +
		Time(n.random.Int64N(int64(within)))
}

// chooseRandom returns a random element, or the zero value if there is none.
func chooseRandom[T any](r *rand.Rand, all []T) (one T) {
	if len(all) > 0 {
		one = all[r.IntN(len(all))]
	}
	return one
}

// Neighbours returns the confirmed neighbours: those to which the node has edges, and those that
// have edges to it. Each list has Degree names if the graph is whole around the node.
func (n *Node) Neighbours() (outs, ins []Name) {
	outs, ins = slices.Grow(outs, len(n.outs)), slices.Grow(ins, len(n.ins))
	for _, o := range n.outs {
		if o.unsettled().until == 0 {
			outs = append(outs, o.peer)
		}
	}
	for _, i := range n.ins {
		ins = append(ins, i.peer)
	}
	return outs, ins
}
