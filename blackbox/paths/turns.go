package paths

import (
	"sort"

	"github.com/cloudprofiler/cloudprofiler/blackbox/calls"
	"github.com/cloudprofiler/cloudprofiler/blackbox/messages"
)

// On most connections, requests and responses take turns: a request is what the client sends until
// it receives, and a response is what it receives until it sends again. On other connections,
// several requests are open at the same time. Then the two ends see different turns, or the two
// ends made different numbers of sending calls in a turn. If the client sent about as often as the
// server on the whole connection, each call that sent counts as one request or one response
// (pair.go). Otherwise turns are the best guess.

// A turn is a request and its response, as one end sees them.
type turn struct {
	out, in [2]int // from and to of the calls that sent, and of those that received
}

// divideIntoTurns divides the calls of a socket into turns. The first list has the calls that
// exchanged requests: those that sent, for a client, and those that received, for a server.
func divideIntoTurns(asks, answers []messages.Call) (all []turn) {
	i, k := 0, 0
	for k < len(answers) && (len(asks) == 0 || momentOf(&answers[k]) < momentOf(&asks[0])) {
		k++ // the response to a request before the capture began, or a greeting
	}
	for i < len(asks) {
		t := turn{out: [2]int{i, i}, in: [2]int{k, k}}
		if len(answers) == 0 { // nobody ever answers, so each message is a turn of its own
			t.out[1], i = i+1, i+1
			all = append(all, t)
			continue
		}
		for i < len(asks) && (k == len(answers) || momentOf(&asks[i]) <= momentOf(&answers[k])) {
			i++
		}
		for k < len(answers) && (i == len(asks) || momentOf(&answers[k]) < momentOf(&asks[i])) {
			k++
		}
		t.out[1], t.in[1] = i, k
		all = append(all, t)
	}
	return all
}

// momentOf is the moment of a call on its node's counter.
func momentOf(c *messages.Call) uint64 { return c.Lo_cycles + (c.Hi_cycles-c.Lo_cycles)/2 }

// sameTurns reports whether both ends see the same turns: each request begins with the same byte.
func sameTurns(s *messages.Socket, own, theirs []turn) bool {
	if len(own) == 0 || len(theirs) == 0 {
		return true
	}
	begins := map[uint64]bool{}
	for _, t := range theirs {
		begins[firstByte(&s.Other.Receives[t.out[0]])] = true
	}
	// The capture may have begun in the middle of a turn.
	from := firstByte(&s.Other.Receives[theirs[0].out[0]])
	for _, t := range own {
		c := &s.Sends[t.out[0]]
		if c.Exact && firstByte(c) > from && !begins[firstByte(c)] {
			return false
		}
	}
	return true
}

// isBalanced reports whether, in each turn that the server sees, both ends made the same number of
// sending calls. It ignores the first and the last turn.
func isBalanced(s *messages.Socket, theirs []turn) bool {
	k := 0
	for i, t := range theirs {
		end := last(&s.Other.Receives[t.out[1]-1])
		n := 0
		for ; k < len(s.Sends) && firstByte(&s.Sends[k]) <= end; k++ {
			n++
		}
		if i > 0 && i < len(theirs)-1 && n != t.in[1]-t.in[0] {
			return false
		}
	}
	return true
}

// fromClient adds the calls of a connection whose client end was captured.
func (o *observer) fromClient(s *messages.Socket) {
	if len(s.Sends) == 0 {
		return
	}
	own := divideIntoTurns(s.Sends, s.Receives)
	if s.Other != nil {
		theirs := divideIntoTurns(s.Other.Receives, s.Other.Sends)
		same := sameTurns(s, own, theirs)
		equal := apart(len(s.Sends), len(s.Other.Sends)) <= 2+len(s.Sends)/100
		if equal && !(same && isBalanced(s, theirs)) {
			o.pipelinedCalls(s)
			return
		}
		if !same {
			o.seen.Mixed++
		}
	}
	for _, t := range own {
		var f foundCall
		f.sent = &s.Sends[t.out[0]]
		if t.in[1] > t.in[0] {
			f.got = &s.Receives[t.in[1]-1]
		}
		if s.Other != nil {
			f.received = callContaining(s.Other.Receives, f.sent, firstByte)
			f.heard = callContaining(s.Other.Receives, &s.Sends[t.out[1]-1], last)
			if f.got != nil {
				f.replied = callContaining(s.Other.Sends, f.got, last)
			}
		}
		o.add(s, f)
	}
}

// pipelinedCalls makes calls from a connection on which several requests are open at the same time.
// Which response belongs to which request is not known yet. So each response is a call of its own,
// and its cause is found like that of other calls.
func (o *observer) pipelinedCalls(s *messages.Socket) {
	o.connections++
	replies := s.Other.Sends
	for len(replies) > 0 && len(s.Other.Receives) > 0 &&
		momentOf(&replies[0]) < momentOf(&s.Other.Receives[0]) {
		replies = replies[1:]
	}
	for i := range s.Sends {
		f := foundCall{moments: moments{sent: &s.Sends[i]}, connection: o.connections}
		f.received = callContaining(s.Other.Receives, f.sent, firstByte)
		f.heard = callContaining(s.Other.Receives, f.sent, last)
		o.add(s, f)
	}
	for i := range replies {
		f := foundCall{moments: moments{sent: &replies[i]}, connection: o.connections,
			answers: true}
		f.received = callContaining(s.Receives, f.sent, last)
		o.add(s.Other, f)
	}
}

// fromServer makes calls from a connection of which only the server's end was captured.
func (o *observer) fromServer(s *messages.Socket) {
	for _, t := range divideIntoTurns(s.Receives, s.Sends) {
		f := foundCall{caller: calls.Outside}
		f.received = &s.Receives[t.out[0]]
		f.heard = &s.Receives[t.out[1]-1]
		f.callee = o.place(f.received.By)
		if t.in[1] > t.in[0] {
			f.replied = &s.Sends[t.in[1]-1]
		}
		o.pass(&f, false)
	}
}

// add adds a call of which the client's end was captured.
func (o *observer) add(s *messages.Socket, f foundCall) {
	f.caller = o.place(f.sent.By)
	switch {
	case f.received != nil:
		f.callee = o.place(f.received.By)
	case s.Other != nil && len(s.Other.Receives) > 0:
		f.callee = o.place(s.Other.Receives[0].By)
	default:
		f.callee = o.farPlace(s)
	}
	o.separateRefuted(&f)
}

func apart(a, b int) int { return max(a-b, b-a) }

// firstByte is the position of the first byte of a call.
func firstByte(c *messages.Call) uint64 { return c.Position }

func last(c *messages.Call) uint64 { return c.Position + uint64(c.Bytes) - 1 }

// callContaining finds, among all the calls of one end of a connection, the one that contains the
// byte at position byteOf(other), where other is a call of the other end. It returns nil if there
// is none, or if the position of either call is not exact.
func callContaining(all []messages.Call, other *messages.Call,
	byteOf func(*messages.Call) uint64) *messages.Call {
	wanted := byteOf(other)
	i := sort.Search(len(all), func(i int) bool { return last(&all[i]) >= wanted })
	if !other.Exact || i == len(all) || firstByte(&all[i]) > wanted || !all[i].Exact {
		return nil
	}
	return &all[i]
}
