package overlay

import "slices"

// beginDeal starts a deal, which is to give the origin of a walk a new edge. In a deal, this node,
// the origin, and perhaps a third node exchange messages. beginDeal reports whether a deal began.
// If this deal fails while the origin still waits, the walk goes on from this node.
//
// A deal never gives a node more outgoing or incoming edges than the degree. If a node dies in the
// middle of a deal, or a message is lost for good, some node lacks an edge in one direction. This
// node then sends a walk to find one.
func (n *Node) beginDeal(s Seek) bool {
	switch {
	case n.shunsNode(s.Origin):
		return false
	case s.Give != "":
		return n.tradeEdges(s)
	case s.Out && s.In && !n.few && len(n.outs) > n.degree/2 && n.spliceOrigin(s):
		// This node puts the origin into one of this node's edges (splice), even if this node has
		// free ends. The origin then gets an edge from this node and an edge to another node. Two
		// free ends of this node would give the origin two edges with the same node.
		return true
	case s.Out && n.freeIns() > 0 && n.in(s.Origin) == nil && !slices.Contains(s.Outs, n.self):
		n.takeFrom(s)
		return true
	case s.In && n.freeOuts() > n.offers && n.out(s.Origin) == nil:
		n.linkTo(s)
		return true
	case s.Out == s.In:
		return false
	}
	return n.joinNodes(s)
}

// takeFrom gives the origin an edge to this node. This uses up a free outgoing end of the origin
// and a free incoming end of this node.
func (n *Node) takeFrom(s Seek) {
	n.addIn(s.Origin)
	id := n.random.Uint64()
	n.ask(s.Origin, id, Grant{ID: id, Walk: s.ID, Out: n.self}, AskTries, afterTake{s.Origin})
}

// afterTake is what this node does once the Grant that takeFrom sent was answered.
type afterTake struct{ from Name }

func (t afterTake) proceed(n *Node, ok bool) {
	if !ok {
		n.dropIn(t.from)
	}
}

// linkTo gives this node an edge to the origin. This uses up a free outgoing end of this node and a
// free incoming end of the origin.
func (n *Node) linkTo(s Seek) {
	n.offers++
	n.offerEdge(s.Origin, s.ID, afterLink{s})
}

// afterLink is what this node does once the offer that linkTo made was answered.
type afterLink struct{ s Seek }

func (l afterLink) proceed(n *Node, ok bool) {
	origin := l.s.Origin
	n.offers--
	n.seekSoon()
	switch {
	case !ok:
		n.goOn(l.s)
	case n.freeOuts() > 0 && n.out(origin) == nil && !n.leaving && !n.shunsNode(origin):
		n.addOut(origin, n.newFlag(false), 0)
	default:
		n.send(origin, Drop{})
	}
}

// offerEdge asks a node whether it accepts an edge from this node.
func (n *Node) offerEdge(to Name, walk uint64, then step) {
	seq := n.random.Uint64()
	n.ask(to, seq, Ping{Seq: seq, Walk: walk}, AskTries, then)
}

// spareEdge returns an edge of this node that a deal can use, or nil if there is none. The deal
// gives the walk's origin an edge to the node where the spare edge leads now, and redirects the
// spare edge to the node that the last parameter names.
func (n *Node) spareEdge(origin Name, outs []Name, in Name) *outEdge {
	if in == n.self || n.out(in) != nil {
		return nil
	}
	if slices.ContainsFunc(n.outs, func(o *outEdge) bool { return o.unsettled().next == in }) {
		return nil // another deal makes an edge to the same node
	}
	var all []*outEdge
	for _, o := range n.outs {
		p := o.unsettled()
		if p.next == "" && p.until == 0 && o.tries <= 1 && o.peer != origin &&
			!slices.Contains(outs, o.peer) {
			all = append(all, o)
		}
	}
	return chooseRandom(n.random, all)
}

// spliceOrigin puts the origin (o) into an edge of this node (x): the edge x→v becomes x→o→v.
func (n *Node) spliceOrigin(s Seek) bool {
	o := n.spareEdge(s.Origin, s.Outs, s.Origin)
	if o == nil {
		return false
	}
	o.lead(s.Origin)
	n.grantEdge(o, s.Origin, Grant{Walk: s.ID, Take: true}, afterGrant{o: o, to: s.Origin})
	return true
}

// tradeEdges exchanges edges between the origin (o) and this node (x): the edges o→b and x→v become
// o→v and x→b.
func (n *Node) tradeEdges(s Seek) bool {
	o := n.spareEdge(s.Origin, s.Outs, s.Give)
	if o == nil {
		return false
	}
	o.lead(s.Give)
	n.grantEdge(o, s.Origin, Grant{Walk: s.ID, Give: true},
		afterGrant{o: o, to: s.Origin, late: true})
	return true
}

// afterGrant is what this node does once a Grant that it sent was answered. If the answer is yes,
// this node hands the granted edge over to the node that accepted the Grant. If not, this node
// keeps the edge.
type afterGrant struct {
	o    *outEdge
	to   Name
	late bool // the edge's next end may not have heard of the edge
	with Name // not empty: the node that accepted to be the edge's next end
}

func (g afterGrant) proceed(n *Node, ok bool) {
	switch {
	case ok && g.late:
		n.handOver(g.o, g.to, n.now+GrantLife)
	case ok:
		n.handOver(g.o, g.to, 0)
	default:
		g.o.lead("")
		if g.with != "" {
			n.send(g.with, Drop{})
		}
	}
}

// joinNodes connects two nodes: node a lacks an out, and node b lacks an in. It uses an edge from
// this node (x) to a third (v): a gets an edge to v, and x gets an edge to b. One of a and b sent
// the walk. The other one only left a note at this node, so joinNodes first asks the other one.
func (n *Node) joinNodes(s Seek) bool {
	for _, w := range n.wants {
		if w.who == s.Origin || w.expires <= n.now || w.out == w.in {
			continue
		}
		if s.Out && w.in && n.joinIn(s, w) || s.In && w.out && n.joinOut(s, w) {
			return true
		}
	}
	return false
}

// joinIn is the part of joinNodes for the case that the node in the note lacks an in.
func (n *Node) joinIn(s Seek, w wantNote) bool {
	o := n.spareEdge(s.Origin, s.Outs, w.who)
	if o == nil {
		return false
	}
	o.lead(w.who)
	n.offerEdge(w.who, w.walk, joiningIn{joinState{o, s, w.who, w.walk}})
	return true
}

// joinState is what a join remembers until the node in the note has answered.
type joinState struct {
	o    *outEdge
	s    Seek
	who  Name // the node in the note, and its walk
	walk uint64
}

// handleAgreement handles the answer of the node in the note, and returns this answer. It forgets
// the note. If the node refused, handleAgreement sends the walk on.
func (j joinState) handleAgreement(n *Node, ok bool) bool {
	n.forget(j.walk)
	if !ok {
		j.o.lead("")
		n.goOn(j.s)
	}
	return ok
}

// joiningIn is what this node does once the offer that joinIn made was answered.
type joiningIn struct{ joinState }

func (j joiningIn) proceed(n *Node, ok bool) {
	if !j.handleAgreement(n, ok) {
		return
	}
	n.grantEdge(j.o, j.s.Origin, Grant{Walk: j.s.ID},
		afterGrant{o: j.o, to: j.s.Origin, with: j.who})
}

// joinOut is the part of joinNodes for the case that the node in the note lacks an out.
func (n *Node) joinOut(s Seek, w wantNote) bool {
	o := n.spareEdge(w.who, w.outs, s.Origin)
	if o == nil {
		return false
	}
	o.lead(s.Origin)
	n.grantEdge(o, w.who, Grant{Walk: w.walk}, joiningOut{joinState{o, s, w.who, w.walk}})
	return true
}

// joiningOut is what this node does once the Grant that joinOut sent was answered.
type joiningOut struct{ joinState }

func (j joiningOut) proceed(n *Node, ok bool) {
	if !j.handleAgreement(n, ok) {
		return
	}
	n.offerEdge(j.s.Origin, j.s.ID, joinedOut{j.o, j.who})
}

// joinedOut is what this node does once the offer of joiningOut was answered.
type joinedOut struct {
	o   *outEdge
	who Name
}

func (j joinedOut) proceed(n *Node, ok bool) {
	if ok {
		n.handOver(j.o, j.who, 0)
	} else {
		j.o.lead("")
		n.revokePromise(j.who, j.o.peer)
	}
}

// grantEdge promises another node (to) an edge to the peer of one of this node's edges (o).
func (n *Node) grantEdge(o *outEdge, to Name, m Grant, then step) {
	m.ID, m.Out = n.random.Uint64(), o.peer
	n.ask(to, m.ID, m, AskTries, then)
}

// revokePromise takes a promise back.
func (n *Node) revokePromise(to, promised Name) {
	id := n.random.Uint64()
	n.ask(to, id, Revoke{ID: id, Out: promised}, AskTries, nil)
}

// handOver tells the peer of one of this node's edges (o) that an edge from another node (to) now
// takes the place of o. After the answer, this node redirects o to the node in the field
// o.open.next.
func (n *Node) handOver(o *outEdge, to Name, until Time) {
	id := n.random.Uint64()
	n.ask(o.peer, id, Handover{ID: id, To: to}, AskTries, afterHandOver{o, to, o.peer, until})
}

// afterHandOver is what this node does once the Handover that handOver sent was answered.
type afterHandOver struct {
	o            *outEdge
	to, promised Name
	until        Time
}

func (h afterHandOver) proceed(n *Node, ok bool) {
	if !ok {
		n.revokePromise(h.to, h.promised)
	}
	n.redirectEdge(h.o, h.o.unsettled().next, n.newFlag(false), h.until)
}

// redirectEdge changes where an edge of this node leads.
func (n *Node) redirectEdge(o *outEdge, next Name, f flag, until Time) {
	o.lead("")
	kept := slices.Contains(n.outs, o) // false if its end became silent in the meantime
	switch {
	case n.out(next) != nil:
		n.dropOut(o)
	case n.shunsNode(next):
		n.send(next, Drop{})
		n.dropOut(o)
	case kept:
		o.peer, o.flag, o.heats = next, f, nil
		n.firstPing(o, until)
	case n.freeOuts() > 0:
		n.addOut(next, f, until)
	default:
		n.send(next, Drop{})
	}
}

func (n *Node) onGrant(from Name, m Grant) {
	a, ok := n.isFresh(from, m.ID)
	if !ok {
		return
	}
	s := n.seek(m.Walk)
	if s == nil || n.leaving || !m.Out.valid() || n.shunsNode(from) {
		n.answer(a, false)
		return
	}
	n.closeSeek(s.id) // the walk is over, even if the grant turns out to be of no use
	if m.Out == n.self || n.out(m.Out) != nil || n.shunsNode(m.Out) || m.Give != (s.give != "") {
		n.answer(a, false)
		return
	}
	if m.Give {
		n.giveFor(a, s, m.Out)
		return
	}
	if !s.out || n.freeOuts() <= 0 || m.Take && (!s.in || !n.addIn(from)) {
		n.answer(a, false)
		return
	}
	n.addOut(m.Out, n.newFlag(s.restarted), n.now+GrantLife)
	if m.Out != from {
		n.outs[len(n.outs)-1].promiseFrom(from)
	}
	n.answer(a, true)
}

// giveFor completes a trade. It gives the other node an edge to the node where this node's offered
// edge leads. Then it redirects the offered edge to the node that the Grant named, which is the
// last parameter.
func (n *Node) giveFor(a answeredRequest, s *seek, next Name) {
	o := n.out(s.give)
	if o == nil || o.unsettled().next != "" {
		n.answer(a, false)
		return
	}
	o.lead(next)
	id := n.random.Uint64()
	n.ask(o.peer, id, Handover{ID: id, To: a.from}, AskTries, afterGiveFor{o, a})
}

// afterGiveFor is what this node does once the Handover that giveFor sent was answered.
type afterGiveFor struct {
	o *outEdge
	a answeredRequest // the Grant, which this node answers in this step
}

func (g afterGiveFor) proceed(n *Node, _ bool) {
	n.redirectEdge(g.o, g.o.unsettled().next, edgeClean, n.now+GrantLife)
	g.o.promiseFrom(g.a.from)
	n.answer(g.a, true)
}

func (n *Node) onRevoke(from Name, m Revoke) {
	a, ok := n.isFresh(from, m.ID)
	if !ok {
		return
	}
	if o := n.out(m.Out); o != nil {
		if p := o.unsettled(); p.promisedBy == from && p.next == "" {
			n.dropOut(o)
		}
	}
	n.answer(a, true)
}

func (n *Node) onHandover(from Name, m Handover) {
	a, ok := n.isFresh(from, m.ID)
	if !ok {
		return
	}
	if !m.To.valid() || m.To == n.self {
		n.answer(a, false)
		return
	}
	i := n.in(from)
	switch {
	case i == nil: // perhaps an earlier message did this already
		n.answer(a, n.in(m.To) != nil)
		return
	case n.shunsNode(m.To):
		n.answer(a, false)
		return
	case n.in(m.To) != nil:
		n.dropIn(from)
		n.answer(a, true)
		return
	}
	i.peer, i.expires = m.To, n.now+Lease
	n.answer(a, true)
}
