package overlay

import "slices"

// A request is a message that is repeated until its receiver acknowledges it.
type request struct {
	id    uint64
	to    Name
	m     Message
	tries int // number of tries that remain
	due   Time
	then  step // nil: nothing
}

// A step is what a node does once one of its requests was answered, or got no answer to its last
// try. The method proceed takes the step. Its parameter ok is true if the answer was yes. It is
// false if the answer was no, or if no answer came. A step is data, so that a node's state can be
// stored.
type step interface{ proceed(n *Node, ok bool) }

// answeredRequest is a request that a node remembers. If the request comes again, it gets the same
// answer and has no second effect.
type answeredRequest struct {
	from      Name
	id        uint64
	came      uint32 // when the request came, in units of AskRetry
	ok, ready bool
}

// recentRequests has the requests that a node remembers. It must need little memory, because a
// simulation has many nodes. So it grows only while there are many requests within RecentLife, and
// becomes empty again afterwards.
type recentRequests struct {
	all  []answeredRequest
	next int // index of the oldest request
}

// newestIndex returns the index of the i-th newest request.
func (r *recentRequests) newestIndex(i int) int {
	return (r.next +
		2*len(r.all) - 1 - i) % len(r.all)
}

// find returns a request that is remembered, or nil.
func (r *recentRequests) find(from Name, id uint64) *answeredRequest {
	for i := range r.all {
		if a := &r.all[r.newestIndex(i)]; a.id == id && a.from == from {
			return a
		}
	}
	return nil
}

// rememberRequest remembers a request. The new request takes the place of the oldest one if the
// oldest one is not needed any more.
func (r *recentRequests) rememberRequest(a answeredRequest) {
	if n := len(r.all); n > 8 && r.all[(r.next+n/2)%n].isOver(a.came) {
		r.forgetOld(a.came)
	}
	if len(r.all) == MaxRecent || len(r.all) > 0 && r.all[r.next].isOver(a.came) {
		r.all[r.next] = a
		r.next = (r.next + 1) % len(r.all)
		return
	}
	if len(r.all) == cap(r.all) {
		r.all = slices.Concat(r.all[r.next:], r.all[:r.next])
		r.all = slices.Grow(r.all, min(len(r.all)/4+4, MaxRecent-len(r.all)))
		r.next = 0
	}
	r.all = slices.Insert(r.all, r.next, a)
	r.next = (r.next + 1) % len(r.all)
}

// forgetOld forgets the requests that cannot come again.
func (r *recentRequests) forgetOld(now uint32) {
	var kept []answeredRequest
	for i := range r.all {
		if a := r.all[(r.next+i)%len(r.all)]; !a.isOver(now) {
			kept = append(kept, a)
		}
	}
	*r = recentRequests{all: kept}
}

// forgetAll forgets all requests if the newest of them cannot come again.
func (r *recentRequests) forgetAll(now uint32) {
	if len(r.all) > 0 && r.all[r.newestIndex(0)].isOver(now) {
		*r = recentRequests{}
	}
}

// isOver reports whether a request cannot come again.
func (a *answeredRequest) isOver(now uint32) bool {
	return now > a.came+uint32(
		RecentLife/AskRetry)
}

// timeInRetries returns the node's time in units of AskRetry.
func (n *Node) timeInRetries() uint32 { return uint32(n.now / AskRetry) }

// ask sends a request. After the answer, or after the last try without an answer, the node proceeds
// with the given step.
func (n *Node) ask(to Name, id uint64, m Message, tries int, then step) {
	r := &request{id: id, to: to, m: m, tries: tries - 1, due: n.now + AskRetry, then: then}
	if len(n.asked) >= MaxAsked {
		r.done(n, false)
		return
	}
	n.asked = append(n.asked, r)
	n.wakeAt(r.due)
	n.send(to, m)
}

func (r *request) done(n *Node, ok bool) {
	if r.then != nil {
		r.then.proceed(n, ok)
	}
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
		r.done(n, false)
	}
}

func (n *Node) onAck(from Name, m Ack) {
	if i := n.waitingRequest(from, m.ID); i >= 0 {
		r := n.asked[i]
		n.asked = slices.Delete(n.asked, i, i+1)
		r.done(n, m.OK)
	}
}

// waitingRequest returns the index of a request that waits for an answer from the given node. If
// there is no such request, it returns -1.
func (n *Node) waitingRequest(from Name, id uint64) int {
	return slices.IndexFunc(n.asked, func(r *request) bool { return r.id == id && r.to == from })
}

// isFresh reports whether a request is new. The caller must answer a new request. If the request
// came before, isFresh sends the earlier answer again.
func (n *Node) isFresh(from Name, id uint64) (answeredRequest, bool) {
	if a := n.seen.find(from, id); a != nil {
		if a.ready {
			n.send(from, Ack{ID: id, OK: a.ok})
		}
		return answeredRequest{}, false
	}
	a := answeredRequest{from: from, id: id, came: n.timeInRetries()}
	n.seen.rememberRequest(a)
	return a, true
}

func (n *Node) answer(a answeredRequest, ok bool) {
	if kept := n.seen.find(a.from, a.id); kept != nil {
		kept.ok, kept.ready = ok, true
	}
	n.send(a.from, Ack{ID: a.id, OK: ok})
}
