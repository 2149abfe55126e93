package overlay

// Leave makes the node leave the graph: the node connects its incoming to its outgoing neighbours.
// The owner must go on calling Receive and Tick until Left returns true.
func (n *Node) Leave(now Time) {
	n.setTime(now)
	if n.leaving {
		return
	}
	n.leaving, n.seeks, n.asked, n.offers = true, nil, nil, 0
	ins, outs := n.ins, n.outs
	n.ins, n.outs = nil, nil
	for _, i := range n.random.Perm(len(ins)) {
		from, to := ins[i].peer, Name("")
		for k, o := range outs {
			if o.peer != from {
				to = o.peer
				outs = append(outs[:k:k], outs[k+1:]...)
				break
			}
		}
		if to != "" {
			id := n.random.Uint64()
			n.ask(to, id, Handover{ID: id, To: from}, AskTries, nil)
		}
		id := n.random.Uint64()
		n.ask(from, id, Leaving{ID: id, Instead: to}, AskTries, nil)
	}
	for _, o := range outs {
		n.send(o.peer, Drop{})
	}
	n.next = n.deadline()
}

// Left reports whether a leaving node has told all its neighbours that it leaves. The owner can
// then drop it.
func (n *Node) Left() bool { return n.leaving && len(n.asked) == 0 }

func (n *Node) onLeaving(from Name, m Leaving) {
	a, ok := n.isFresh(from, m.ID)
	if !ok {
		return
	}
	if o := n.out(from); o != nil && o.unsettled().next == "" {
		if m.Instead.valid() && m.Instead != n.self && n.out(m.Instead) == nil {
			n.redirectEdge(o, m.Instead, o.flag, n.now+GrantLife)
		} else {
			n.dropOut(o)
		}
	}
	n.answer(a, true)
}
