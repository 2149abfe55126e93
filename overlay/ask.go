package overlay

import "slices"

// A request is a message that is repeated until its receiver acknowledges it.
type request struct {
	id    uint64
	to    Name
	m     Message
	tries int // number of tries that remain
	due   Time
	done  func(ok, answered bool)
}

// A node remembers an answered request. If the request comes again, it gets the same answer and has
// no second effect.
type answered struct {
	from      Name
	id        uint64
	ok, ready bool
}

// ask sends a request. It calls the function done once. If the receiver answered, answered is true
// and ok is the answer. If it did not, both are false.
func (n *Node) ask(to Name, id uint64, m Message, tries int, done func(ok, answered bool)) {
	if len(n.asked) >= MaxAsked {
		done(false, false)
		return
	}
	n.asked = append(n.asked,
		&request{id: id, to: to, m: m, tries: tries - 1, due: n.now + AskRetry, done: done})
	n.wakeAt(n.now + AskRetry)
	n.send(to, m)
}

func (n *Node) askAgain() {
	var over []*request
	n.asked = slices.DeleteFunc(n.asked, func(r *request) bool {
		if r.due > n.now {
			return false
		}
		if r.tries == 0 {
			over = append(over, r)
			return true
		}
		r.tries--
		r.due = n.now + AskRetry
		n.send(r.to, r.m)
		return false
	})
	for _, r := range over {
		r.done(false, false)
	}
}

func (n *Node) onAck(from Name, m Ack) {
	i := slices.IndexFunc(n.asked, func(r *request) bool { return r.id == m.ID && r.to == from })
	if i < 0 {
		return
	}
	r := n.asked[i]
	n.asked = slices.Delete(n.asked, i, i+1)
	r.done(m.OK, true)
}

// fresh reports whether a request is new. If it is new, the caller must answer it. If it is not,
// fresh sends the earlier answer again.
func (n *Node) fresh(from Name, id uint64) (*answered, bool) {
	for _, a := range n.seen.values {
		if a.id == id && a.from == from {
			if a.ready {
				n.send(from, Ack{ID: id, OK: a.ok})
			}
			return nil, false
		}
	}
	a := &answered{from: from, id: id}
	n.seen.put(a, MaxRecent)
	return a, true
}

func (n *Node) answer(a *answered, ok bool) {
	a.ok, a.ready = ok, true
	n.send(a.from, Ack{ID: a.id, OK: ok})
}
