package overlay

import "slices"

// A seek is a walk of this node that looks for edges. Its timer runs until the walk is answered.
type seek struct {
	id        uint64
	out, in   bool
	give      Name // the end of the edge that the node wants to exchange; "": no exchange
	until     Time
	restarted bool
}

// A wantNote is a note that a walk left: some node lacks an edge in one direction.
type wantNote struct {
	who     Name
	walk    uint64
	out, in bool
	outs    []Name
	expires Time
}

// seekSoon makes the node look for missing edges at the next Tick. If the node pauses after a walk
// in vain, it looks for them once the pause is over.
func (n *Node) seekSoon() {
	if n.leaving {
		return
	}
	n.seekAt = min(n.seekAt, max(n.now, n.pausedUntil))
	n.wakeAt(n.seekAt)
}

// tickSeeks starts one walk for each pair of a free out and a free in. For the remaining free ends
// it starts walks only if they have been alone for AloneWait.
func (n *Node) tickSeeks() {
	n.seeks = slices.DeleteFunc(n.seeks, func(s *seek) bool {
		if s.until > n.now {
			return false
		}
		if s.give == "" {
			n.restarted = true
			n.inVain(LostPause)
		}
		return true
	})
	if n.seekAt > n.now {
		return
	}
	n.seekAt = neverTime
	outs, ins := n.freeOuts()-n.offers, n.freeIns()
	for _, s := range n.seeks {
		if s.out {
			outs--
		}
		if s.in {
			ins--
		}
	}
	if n.freeOuts() == 0 || n.freeIns() == 0 {
		n.few = false
	}
	if outs <= 0 && ins <= 0 {
		n.joined = n.joined || len(n.seeks) == 0
		n.aloneSince = neverTime
		return
	}
	many := n.degree
	if n.few || len(n.outs) == 0 {
		many = 1 // if many nodes start at once, more walks would exceed what nodes accept
	}
	for len(n.seeks) < many && outs > 0 && ins > 0 {
		outs--
		ins--
		n.startSeek(true, true, "", "")
	}
	if outs <= 0 && ins <= 0 || len(n.seeks) >= many {
		n.seekAt = max(n.now+SeekPause, n.pausedUntil)
		return
	}
	if n.aloneSince == neverTime {
		n.aloneSince = n.now
	}
	if at := n.aloneSince + AloneWait; at > n.now {
		n.seekAt = at
		return
	}
	for range max(outs, ins) {
		if len(n.seeks) < many {
			n.startSeek(outs > 0, ins > 0, "", "")
		}
	}
}

// startSeek starts a walk at the node that the last parameter names or, if it is empty, at a
// neighbour.
func (n *Node) startSeek(out, in bool, give, first Name) {
	if give == "" && (!n.joined || n.restarted || n.few) {
		first = n.beginAgain() // there may be nodes that no walk from the neighbours reaches
	}
	s := &seek{id: n.random.Uint64(), out: out, in: in, give: give,
		until: n.now + WalkLife, restarted: n.restarted}
	n.restarted = false
	w := Seek{Out: out, In: in, Give: give, Mix: WalkSteps, Scan: SeekScan}
	if give != "" {
		w.Scan = TradeScan
	}
	n.sendSeek(s, w, first)
}

// sendSeek sends the walk w, whose timer is the parameter s.
func (n *Node) sendSeek(s *seek, w Seek, first Name) {
	n.seeks = append(n.seeks, s)
	n.wakeAt(s.until)
	w.Origin, w.ID = n.self, s.id
	for _, o := range n.outs {
		if !w.Apart { // in another part of the graph, nobody has an edge to one of these
			w.Outs = append(w.Outs, o.peer)
		}
	}
	n.passWalk(w, first)
}

// inVain makes the node pause after a walk in vain. Each pause is longer than the previous one, up
// to a limit.
func (n *Node) inVain(limit Time) {
	if n.pausedUntil <= n.now {
		n.pausedUntil = n.soonAfter(n.seekPause/2) + n.seekPause/2
		n.seekPause = max(n.seekPause, min(2*n.seekPause, limit))
	}
	n.seekSoon() // even within a pause: nothing else may wake the node after it
}

func (n *Node) seek(id uint64) *seek {
	for _, s := range n.seeks {
		if s.id == id {
			return s
		}
	}
	return nil
}

// closeSeek ends a walk that was answered.
func (n *Node) closeSeek(id uint64) {
	before := len(n.seeks)
	n.seeks = without(n.seeks, func(s *seek) bool { return s.id == id })
	if len(n.seeks) < before {
		n.seekPause, n.pausedUntil = SeekPause, 0
		n.seekSoon()
	}
}

func (n *Node) onEnded(from Name, m Ended) {
	if a, ok := n.isFresh(from, m.ID); ok {
		n.endSeek(m.Walk, m.Few)
		n.answer(a, true)
	}
}

// endSeek handles the message that a walk of this node ended without finding a neighbour.
func (n *Node) endSeek(id uint64, few bool) {
	if s := n.seek(id); s != nil {
		n.seeks = without(n.seeks, func(other *seek) bool { return other == s })
		if s.give == "" {
			limit := SeekPause
			if n.few = n.few || few; few {
				limit = LostPause
			}
			if few && s.out && s.in {
				limit = FewPause
			}
			n.inVain(limit)
		}
	}
}

// handleWalk handles a walk that arrives at this node.
func (n *Node) handleWalk(s Seek) {
	if s.Origin != n.self {
		n.rememberName(s.Origin)
	}
	if s.Apart {
		n.lookApart(s)
		return
	}
	if s.Mix > 0 && (n.walkTo("") != "" || n.isIsolated()) {
		s.Mix--
		n.passWalk(s, "")
		return
	}
	if s.Origin == n.self || n.isIsolated() || !n.beginDeal(s) {
		n.goOn(s)
	}
}

// isIsolated reports whether this node must not deal, because it has no edges and does not know
// that there are few nodes. If such nodes made deals, two nodes that join could begin a graph of
// their own. An isolated node instead passes walks on to nodes that it knows.
func (n *Node) isIsolated() bool { return len(n.outs) == 0 && len(n.contacts) > 0 && !n.few }

// goOn leaves a note about a walk at this node. Then it sends the walk to the next node, or ends
// it.
func (n *Node) goOn(s Seek) {
	if s.Give == "" && (s.Origin == n.self || n.noteSought(s)) {
		s.Revisits++
	}
	few := n.walkTo("") == "" && !n.isIsolated() || s.sawFew()
	if s.Scan == 0 || few {
		n.endInVain(s, few)
		return
	}
	s.Scan--
	n.passWalk(s, "")
}

// sawFew reports whether a walk met the same nodes so often that there must be few.
func (s Seek) sawFew() bool {
	return s.Revisits >= SeekRevisits && s.Revisits > (SeekScan-s.Scan)/2
}

// endInVain ends a walk that found nothing.
func (n *Node) endInVain(s Seek, few bool) {
	if s.Origin == n.self {
		n.endSeek(s.ID, few)
		return
	}
	id := n.random.Uint64()
	n.ask(s.Origin, id, Ended{ID: id, Walk: s.ID, Few: few}, AskTries, nil)
}

// noteSought remembers what a walk looks for. It reports whether the walk was here before.
func (n *Node) noteSought(s Seek) bool {
	n.wants = without(n.wants, func(w wantNote) bool { return w.expires <= n.now })
	for i := range n.wants {
		if n.wants[i].walk == s.ID {
			return true
		}
	}
	if len(n.wants) >= MaxWants {
		n.wants = slices.Delete(n.wants, 0, 1)
	}
	n.wants = append(n.wants, wantNote{who: s.Origin, walk: s.ID, out: s.Out, in: s.In,
		outs:    s.Outs,
		expires: n.now + WantLife})
	return false
}

func (n *Node) forget(walk uint64) {
	n.wants = without(n.wants, func(w wantNote) bool { return w.walk == walk })
}
