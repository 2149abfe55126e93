package overlay

import "slices"

// A graph can fall into parts although no node lacks an edge. Each node of such a part has all its
// edges, so it starts no walk, and nothing would ever join the parts. The fewer nodes there are and
// the smaller the degree, the more often this happens: a random graph of 10 nodes with degree 2 is
// in parts once in some 70 times. Nodes that start at the same moment make parts more often than
// that.
//
// So each node looks for other parts from time to time. Its walk begins at a node whose name the
// node knows, but that is no neighbour. If the walk meets the origin or a neighbour of the origin,
// both are in one part. If it meets the same nodes again and again, and never one of these, the
// walk is in a small part that the origin is not in. It then trades an edge of the origin for one
// of this part. This joins the two parts: an edge of a regular graph is on a cycle, so the rest of
// each part stays connected.

// checkSoon makes the node look for another part of the graph soon, and then more and more seldom.
func (n *Node) checkSoon() {
	n.checkPause = CheckSoon
	n.checkAt = min(n.checkAt, n.soonAfter(CheckSoon))
	n.wakeAt(n.checkAt)
}

// tickParts starts a walk that looks for another part of the graph, if it is time for one.
func (n *Node) tickParts() {
	if n.checkAt > n.now {
		return
	}
	n.checkPause = min(CheckGrowth*n.checkPause, CheckPeriod)
	n.checkAt = n.soonAfter(n.checkPause) + n.checkPause/2
	trading := slices.ContainsFunc(n.seeks, func(s *seek) bool { return s.give != "" })
	first := chooseRandom(n.random, without(slices.Concat(n.contacts, n.known.values),
		func(name Name) bool { return name == n.self || n.out(name) != nil || n.in(name) != nil }))
	give := chooseRandom(n.random, without(slices.Clone(n.outs), func(o *outEdge) bool {
		p := o.unsettled()
		return p.next != "" || p.until != 0
	}))
	if trading || first == "" || give == nil {
		return
	}
	s := &seek{id: n.random.Uint64(), give: give.peer, until: n.now + WalkLife}
	n.sendSeek(s, Seek{Give: give.peer, Apart: true, Scan: SeekScan}, first)
}

// lookApart handles a walk that looks for a part of the graph that its origin is not in.
func (n *Node) lookApart(s Seek) {
	near := s.Origin == n.self || n.in(s.Origin) != nil || n.out(s.Origin) != nil
	if !near && n.noteSought(s) {
		s.Revisits++
	}
	isLarge := SeekScan-s.Scan >= CheckScan*(s.Revisits+1)
	switch {
	case near || isLarge || s.Scan == 0:
		n.endInVain(s, false)
	case s.sawFew() && n.beginDeal(s):
	default:
		s.Scan--
		n.passWalk(s, "")
	}
}
