package overlay

import "slices"

// An outEdge is an outgoing edge. Only the node at its beginning changes it.
type outEdge struct {
	peer  Name
	open  *openPart // nil: nothing is open
	heats *toldHeat // the peer's path heats, as it told them; nil: it has told none

	due   Time // time of the next ping
	seq   uint64
	tries uint8 // number of pings without an answer
	flag  flag
}

// openPart is what is not settled about an edge. It is a struct of its own, because at any time
// only a few edges need it.
type openPart struct {
	next Name // where the edge will lead if a deal about it succeeds; "" without a deal

	// Until this time, the peer may deny that it has the edge, because it may not have heard of the
	// edge yet. The time is 0 once the peer has confirmed the edge.
	until Time
	// promisedBy is the node that granted the edge. That node is blamed if the edge turns out not
	// to exist.
	promisedBy Name
}

// unsettled returns what is open about the edge.
func (o *outEdge) unsettled() openPart {
	if o.open == nil {
		return openPart{}
	}
	return *o.open
}

// settle stores p as the open part of the edge. If p is empty, the edge has no open part any more.
func (o *outEdge) settle(p openPart) {
	o.open = nil
	if p != (openPart{}) {
		kept := p // p itself would be allocated each time
		o.open = &kept
	}
}

// lead notes where the edge will lead if a deal about it succeeds.
func (o *outEdge) lead(next Name) {
	p := o.unsettled()
	p.next = next
	o.settle(p)
}

// promiseFrom says who granted the edge.
func (o *outEdge) promiseFrom(by Name) {
	p := o.unsettled()
	p.promisedBy = by
	o.settle(p)
}

// deny notes until when the peer may deny that it has the edge.
func (o *outEdge) deny(until Time) {
	p := o.unsettled()
	p.until = until
	o.settle(p)
}

// toldHeat is what a peer has said about heat.
type toldHeat struct {
	heats []Heat
	until Time
}

// A flag says that an edge should be replaced, because its peer was not drawn from the whole fleet.
type flag uint8

const (
	edgeClean     flag = 0
	edgeRestarted flag = 1 // the edge's first walk was lost, perhaps because it went far
	edgeSuspected flag = 2 // the edge was made while the fleet was perhaps cut in two
)

// An inEdge is an incoming edge. It lasts as long as pings arrive along it.
type inEdge struct {
	peer    Name
	expires Time
}

func (n *Node) out(peer Name) *outEdge {
	for _, o := range n.outs {
		if o.peer == peer {
			return o
		}
	}
	return nil
}

func (n *Node) in(peer Name) *inEdge {
	for i := range n.ins {
		if n.ins[i].peer == peer {
			return &n.ins[i]
		}
	}
	return nil
}

func (n *Node) freeOuts() int { return n.degree - len(n.outs) }
func (n *Node) freeIns() int  { return n.degree - len(n.ins) }

// addOut makes an edge to a peer. Until the given time, the peer may deny that it has the edge.
func (n *Node) addOut(peer Name, f flag, until Time) {
	o := &outEdge{peer: peer, flag: f}
	n.outs = append(n.outs, o)
	n.firstPing(o, until)
}

// firstPing sends the first ping of a new edge.
func (n *Node) firstPing(o *outEdge, until Time) {
	o.deny(until)
	n.checkSoon()
	o.tries, o.due = 0, n.now
	if until > n.now { // another node tells the peer about the edge, so wait before the first ping
		o.seq, o.due = 0, n.now+PingRetry/2
		n.wakeAt(o.due)
		return
	}
	n.pingAgain(o)
}

func (n *Node) pingAgain(o *outEdge) {
	if o.tries == 0 {
		o.seq = n.random.Uint64()
	}
	o.tries++
	o.due = n.now + PingRetry
	n.wakeAt(o.due)
	n.send(o.peer, Ping{Seq: o.seq})
}

// addIn makes the node accept an edge from a peer, if the node has room for one. It reports whether
// the node has that edge now.
func (n *Node) addIn(peer Name) bool {
	i := n.in(peer)
	if i == nil {
		if n.freeIns() <= 0 || n.leaving || n.shunsNode(peer) {
			return false
		}
		n.ins = append(n.ins, inEdge{peer: peer})
		i = &n.ins[len(n.ins)-1]
	}
	i.expires = n.now + Lease
	n.wakeAt(i.expires)
	return true
}

func (n *Node) dropIn(peer Name) {
	before := len(n.ins)
	n.ins = without(n.ins, func(i inEdge) bool { return i.peer == peer })
	if len(n.ins) < before {
		n.seekSoon()
	}
}

func (n *Node) dropOut(o *outEdge) {
	n.outs = without(n.outs, func(other *outEdge) bool { return other == o })
	n.seekSoon()
}

func (n *Node) onPing(from Name, m Ping) {
	ok := n.addIn(from)
	if ok && m.Walk != 0 {
		n.closeSeek(m.Walk)
	}
	n.send(from, Pong{Seq: m.Seq, OK: ok})
}

func (n *Node) onPong(from Name, m Pong) {
	o := n.out(from)
	if o == nil || o.seq != m.Seq {
		// This pong may also be the answer to a deal's offer of an edge.
		n.onAck(from, Ack{ID: m.Seq, OK: m.OK})
		return
	}
	before := o.unsettled()
	switch {
	case m.OK:
		first := n.next == o.due
		o.tries = 0
		o.settle(openPart{next: before.next})
		o.due = n.now + PingPeriod*7/8 + Time(n.random.Int64N(int64(PingPeriod/8)))
		if first { // the node need not wake up to repeat this ping
			n.next = max(n.deadline(), n.now+1)
		}
		n.wakeAt(o.due)
	case before.next != "" || n.now < before.until:
		o.tries = 0 // the peer is alive, and may hear of the edge soon
	default:
		if by := before.promisedBy; by != "" {
			n.blame(by, FalsePromise)
			n.dropIn(by)
		}
		n.dropOut(o)
	}
}

// tickEdges sends the pings that are due, and gives up each edge whose other end is silent.
func (n *Node) tickEdges() {
	var gone []*outEdge
	for _, o := range n.outs {
		switch {
		case o.due > n.now:
		case o.tries >= PingTries:
			gone = append(gone, o)
		default:
			n.pingAgain(o)
		}
	}
	for _, o := range gone {
		if by := o.unsettled().promisedBy; by != "" { // the peer has never answered
			n.blame(by, FalsePromise)
		}
		n.noteFailed(o.peer)
		n.dropOut(o)
	}
	expired := false
	n.ins = slices.DeleteFunc(n.ins, func(i inEdge) bool {
		if i.expires > n.now {
			return false
		}
		expired = true
		return true
	})
	if expired {
		n.seekSoon()
	}
}

// walkTo returns a neighbour for a walk's next step: a random outgoing one that is not the node in
// the parameter. If there is none, it returns a random incoming one, or "".
func (n *Node) walkTo(avoid Name) Name {
	var room [2][MaxDegree]Name // so that this frequent function allocates nothing
	sure, some := room[0][:0], room[1][:0]
	for _, o := range n.outs {
		if o.peer == avoid {
			continue
		}
		some = append(some, o.peer)
		if o.unsettled().until == 0 && o.tries <= 1 {
			sure = append(sure, o.peer)
		}
	}
	if len(sure) == 0 {
		sure = some
	}
	if len(sure) == 0 {
		for _, i := range n.ins {
			sure = append(sure, i.peer)
		}
	}
	return chooseRandom(n.random, sure)
}
