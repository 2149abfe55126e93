package overlay

import "slices"

// hopWays is the number of neighbours that a node tries before it gives up a walk.
const hopWays = 4

// passWalk sends a walk one step further: to the given node or, if its name is empty, to a random
// neighbour.
func (n *Node) passWalk(w Walk, first Name) { n.passTo(w, first, "", hopWays) }

func (n *Node) passTo(w Walk, to, avoid Name, ways int) {
	if to == "" {
		to = n.walkTo(avoid)
	}
	if to == "" {
		to = n.beginAgain()
	}
	if to == "" || ways == 0 {
		if s, ok := w.(Seek); ok && s.Origin == n.self {
			n.endSeek(s.ID, false)
		}
		return // the walk's origin has a timer, so nobody needs to tell it
	}
	id := n.random.Uint64()
	n.ask(to, id, Hop{ID: id, Walk: w}, HopTries, afterHop{w, to, ways})
}

// afterHop is what this node does once a Hop that it sent was answered.
type afterHop struct {
	w    Walk
	to   Name
	ways int
}

func (p afterHop) proceed(n *Node, ok bool) {
	if !ok {
		if slices.Contains(n.contacts, p.to) { // perhaps it is on the other side of a cut
			n.noteLost(p.to)
		}
		n.passTo(p.w, "", p.to, p.ways-1)
	}
}

func (n *Node) onHop(from Name, m Hop) {
	if n.shunsNode(from) {
		return
	}
	if !n.affordsWalk(from) {
		// Drop the walk, but answer as if the walk went on. Otherwise the sender would repeat its
		// message, which would only cost more.
		n.send(from, Ack{ID: m.ID, OK: true})
		return
	}
	if what := offenceOf(m.Walk); what != "" {
		n.blame(from, what)
		return
	}
	a, ok := n.isFresh(from, m.ID)
	if !ok {
		return
	}
	n.answer(a, !n.leaving)
	if n.leaving {
		return
	}
	switch w := m.Walk.(type) {
	case Seek:
		n.handleWalk(w)
	case Climb:
		n.handleClimb(w)
	case Search:
		if w.Mix > 0 {
			w.Mix--
			n.passWalk(w, "")
		} else {
			n.lookForFact(w)
		}
	}
}

// offenceOf returns the rule that a walk breaks, or "".
func offenceOf(w Walk) Offence {
	if w == nil {
		return BadMessage
	}
	if mix, scan := w.walk(); mix < 0 || scan < 0 || mix > MaxMix || scan > MaxScan {
		return EndlessWalk
	}
	if !w.valid() {
		return BadMessage
	}
	return ""
}
