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

	confirmed func(Fact) // called instead of done if a Verify is confirmed
}

// A node remembers an answered request. If the request comes again, it gets the same answer and has
// no second effect.
type answered struct {
	from      Name
	id        uint64
	ok, ready bool
	fact      Fact // not empty: what a Confirm said
}

// ask sends a request. It calls the function done once. If the receiver answered, answered is true
// and ok is the answer. If it did not, both are false.
func (n *Node) ask(to Name, id uint64, m Message, tries int, done func(ok, answered bool)) {
	n.request(&request{id: id, to: to, m: m, tries: tries, done: done})
}

func (n *Node) request(r *request) {
	if len(n.asked) >= MaxAsked {
		r.done(false, false)
		return
	}
	r.tries--
	r.due = n.now + AskRetry
	n.asked = append(n.asked, r)
	n.wakeAt(r.due)
	n.send(r.to, r.m)
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
	if i := n.waiting(from, m.ID); i >= 0 {
		r := n.asked[i]
		n.asked = slices.Delete(n.asked, i, i+1)
		r.done(m.OK, true)
	}
}

// waiting returns the index of a request that waits for an answer, or -1.
func (n *Node) waiting(from Name, id uint64) int {
	return slices.IndexFunc(n.asked, func(r *request) bool { return r.id == id && r.to == from })
}

// fresh reports whether a request is new. If it is new, the caller must answer it. If it is not,
// fresh sends the earlier answer again.
func (n *Node) fresh(from Name, id uint64) (*answered, bool) {
	for _, a := range n.seen.values {
		if a.id == id && a.from == from {
			if a.ready {
				n.sendAnswer(a)
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
	n.sendAnswer(a)
}

func (n *Node) sendAnswer(a *answered) {
	if a.fact != "" {
		n.send(a.from, Confirm{ID: a.id, Fact: a.fact})
	} else {
		n.send(a.from, Ack{ID: a.id, OK: a.ok})
	}
}
