package overlay

import "slices"

// noteFailed notes that a neighbour does not answer any more.
func (n *Node) noteFailed(peer Name) {
	if n.leaving {
		return
	}
	n.failures = append(without(n.failures,
		func(t Time) bool { return t+SuspectWindow <= n.now }), n.now)
	if len(n.failures) > MaxFailures {
		n.failures = slices.Delete(n.failures, 0, 1)
	}
	n.noteLost(peer)
}

// noteLost makes the node probe another node from time to time until that one answers.
func (n *Node) noteLost(peer Name) {
	if slices.Contains(n.lost, peer) {
		return
	}
	if len(n.lost) >= MaxLost {
		n.lost = slices.Delete(n.lost, 0, 1)
	}
	n.lost = append(n.lost, peer)
	if n.probeAt == neverTime {
		n.probeAt = n.soonAfter(LostPeriod)
	}
	n.wakeAt(n.probeAt)
}

// Suspects reports whether the fleet may be cut in two: several neighbours became silent within
// SuspectWindow. This is never certain, because no node knows how many nodes there are.
func (n *Node) Suspects() bool {
	recent := 0
	for _, t := range n.failures {
		if t+SuspectWindow > n.now {
			recent++
		}
	}
	return recent >= SuspectFailures
}

func (n *Node) newFlag(again bool) flag {
	switch {
	case n.Suspects():
		return edgeSuspected
	case again:
		return edgeRestarted
	}
	return edgeClean
}

// rememberName remembers the name of a node. If all neighbours are gone, this node begins again
// with the nodes whose names it remembers.
func (n *Node) rememberName(name Name) {
	if !slices.Contains(n.known.values, name) {
		n.known.put(name, MaxKnown)
	}
}

// Meet replaces the node's contacts. The new contacts come from somebody who knows members of the
// graph, such as the server. If the node lacks neighbours, it looks for them at once. An empty list
// changes nothing.
func (n *Node) Meet(now Time, contacts []Name) {
	n.setTime(now)
	contacts = slices.DeleteFunc(slices.Clone(contacts),
		func(name Name) bool { return !name.valid() || name == n.self })
	if len(contacts) == 0 {
		return
	}
	n.contacts = contacts[:min(len(contacts), MaxKnown)]
	n.checkSoon()
	n.seekAfresh()
}

// seekAfresh makes the node look for missing edges at once, because it has heard of nodes that its
// earlier walks did not reach.
func (n *Node) seekAfresh() {
	if n.freeOuts() > 0 || n.freeIns() > 0 {
		n.few, n.pausedUntil, n.seekPause = false, 0, SeekPause
		n.seekSoon()
	}
}

// beginAgain returns a node at which a walk can start if this node has no neighbour. It often
// prefers contacts, because they are newer than the other names, whose nodes may all have died.
func (n *Node) beginAgain() Name {
	if len(n.contacts) > 0 && n.random.IntN(2) == 0 {
		return chooseRandom(n.random, n.contacts)
	}
	return chooseRandom(n.random, slices.Concat(n.contacts, n.known.values, n.lost))
}

func (n *Node) onAlive(from Name) {
	if !slices.Contains(n.lost, from) {
		return
	}
	n.lost = without(n.lost, func(name Name) bool { return name == from })
	n.back = append(without(n.back, func(name Name) bool { return name == from }), from)
	if len(n.back) > MaxLost {
		n.back = slices.Delete(n.back, 0, 1)
	}
	n.repickAt = n.soonAfter(SeekPause)
	n.wakeAt(n.repickAt)
	n.seekAfresh()
}

// tickLost probes lost nodes and replaces flagged edges. From time to time, it replaces an edge
// that was flagged because a walk had been lost. As soon as a node on the other side of a cut
// answers, walks that begin at that node replace the edges that were flagged because of the cut.
func (n *Node) tickLost() {
	if n.probeAt <= n.now {
		n.probeAt = neverTime
		if len(n.lost) > 0 {
			n.send(chooseRandom(n.random, n.lost), Probe{})
			n.probeAt = n.now + LostPeriod/2 + Time(n.random.Int64N(int64(LostPeriod)))
		}
	}
	if n.repickAt <= n.now {
		n.repick()
	}
}

func (n *Node) repick() {
	n.repickAt = n.now + RepickPeriod
	var again, cut []*outEdge
	for _, o := range n.outs {
		if p := o.unsettled(); p.next != "" || p.until != 0 {
			continue
		}
		switch o.flag {
		case edgeRestarted:
			again = append(again, o)
		case edgeSuspected:
			cut = append(cut, o)
		}
	}
	for _, s := range n.seeks {
		if s.give != "" {
			n.repickAt = n.now + SeekPause // one trade at a time
			return
		}
	}
	switch {
	case len(n.back) > 0 && len(cut) > 0:
		n.startSeek(false, false, chooseRandom(n.random, cut).peer, chooseRandom(n.random, n.back))
		n.repickAt = n.soonAfter(2 * SeekPause)
	case len(again) > 0:
		n.startSeek(false, false, chooseRandom(n.random, again).peer, "")
	default:
		if len(cut) == 0 {
			n.back = nil
		}
	}
}
