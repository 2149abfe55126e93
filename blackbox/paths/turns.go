package paths

import (
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
	asked, lastAsked *messages.Call // the first and the last call that exchanged the request
	answered         *messages.Call // the last one that exchanged the response; nil: none did
	answers          int            // number of calls that exchanged the response
}

// A turnReader divides the calls of a socket into turns. The first sequence has the calls that
// exchanged requests: those that sent, for a client, and those that received, for a server.
type turnReader struct {
	asks, answers *messages.Reader
	oneWay        bool // nobody ever answers, so each message is a turn of its own
}

func readTurns(asks, answers *messages.Sequence) *turnReader {
	t := &turnReader{asks.Read(), answers.Read(), answers.Len() == 0}
	for t.answersFirst() {
		t.answers.Next() // the response to a request before the capture began, or a greeting
	}
	return t
}

// answersFirst reports whether the next call belongs to a response.
func (t *turnReader) answersFirst() bool {
	return !t.answers.Done &&
		(t.asks.Done || momentOf(&t.answers.Call) < momentOf(&t.asks.Call))
}

// next returns the next turn. It returns false if there is none.
func (t *turnReader) next() (one turn, ok bool) {
	if t.asks.Done {
		return one, false
	}
	first := t.asks.Call
	last := first
	for t.asks.Next(); !t.oneWay && !t.asks.Done && !t.answersFirst(); t.asks.Next() {
		last = t.asks.Call
	}
	one.asked, one.lastAsked = &first, &last
	if t.answersFirst() {
		var answered messages.Call
		for ; t.answersFirst(); t.answers.Next() {
			answered = t.answers.Call
			one.answers++
		}
		one.answered = &answered
	}
	return one, true
}

// momentOf is the moment of a call on its node's counter.
func momentOf(c *messages.Call) uint64 { return c.Lo_cycles + (c.Hi_cycles-c.Lo_cycles)/2 }

// The socket s is the client's end. ownTurns reads the turns as the client sees them, and
// theirTurns as the server sees them.
func ownTurns(s *messages.Socket) *turnReader { return readTurns(&s.Sends, &s.Receives) }
func theirTurns(s *messages.Socket) *turnReader {
	return readTurns(&s.Other.Receives, &s.Other.Sends)
}

// sameTurns reports whether both ends see the same turns: each request begins at the same byte of
// the stream.
func sameTurns(s *messages.Socket) bool {
	own, theirs := ownTurns(s), theirTurns(s)
	their, isThere := theirs.next()
	if !isThere {
		return true
	}
	// The capture may have begun in the middle of a turn.
	from := firstByte(their.asked)
	for t, ok := own.next(); ok; t, ok = own.next() {
		begin := firstByte(t.asked)
		if !t.asked.Exact || begin <= from {
			continue
		}
		for isThere && firstByte(their.asked) < begin {
			their, isThere = theirs.next()
		}
		if !isThere || firstByte(their.asked) != begin {
			return false
		}
	}
	return true
}

// isBalanced reports whether, in each turn that the server sees, both ends made the same number of
// sending calls. It ignores the first and the last turn.
func isBalanced(s *messages.Socket) bool {
	theirs, sends := theirTurns(s), s.Sends.Read()
	differs := false // in the turn before
	for i := 0; ; i++ {
		t, ok := theirs.next()
		if !ok {
			return true
		}
		if differs {
			return false
		}
		n := 0
		for ; !sends.Done && firstByte(&sends.Call) <= last(t.lastAsked); sends.Next() {
			n++
		}
		differs = i > 0 && n != t.answers
	}
}

// fromClient adds the calls of a connection whose client end was captured.
func (o *observer) fromClient(s *messages.Socket) {
	if s.Sends.Len() == 0 {
		return
	}
	var received, replied finder
	if s.Other != nil {
		same := sameTurns(s)
		sends, answers := s.Sends.Len(), s.Other.Sends.Len()
		equal := apart(sends, answers) <= 2+sends/100
		if equal && !(same && isBalanced(s)) {
			o.pipelinedCalls(s)
			return
		}
		if !same {
			o.seen.Mixed++
		}
		received.r, replied.r = s.Other.Receives.Read(), s.Other.Sends.Read()
	}
	own := ownTurns(s)
	for t, ok := own.next(); ok; t, ok = own.next() {
		f := foundCall{moments: moments{sent: t.asked, got: t.answered},
			oneWay: own.oneWay}
		if s.Other != nil {
			f.received = received.find(f.sent, firstByte)
			f.heard = received.find(t.lastAsked, last)
			if f.got != nil {
				f.replied = replied.find(f.got, last)
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
	received := finder{r: s.Other.Receives.Read()}
	begin := received.r.Call // of requests, at the server
	hasRequests := !received.r.Done
	for sends := s.Sends.Read(); !sends.Done; sends.Next() {
		sent := sends.Call
		f := foundCall{moments: moments{sent: &sent}, connection: o.connections}
		f.received = received.find(f.sent, firstByte)
		f.heard = received.find(f.sent, last)
		o.add(s, f)
	}
	got, replies := finder{r: s.Receives.Read()}, s.Other.Sends.Read()
	for hasRequests && !replies.Done && momentOf(&replies.Call) < momentOf(&begin) {
		replies.Next()
	}
	for ; !replies.Done; replies.Next() {
		sent := replies.Call
		f := foundCall{moments: moments{sent: &sent}, connection: o.connections, answers: true}
		f.received = got.find(f.sent, last)
		o.add(s.Other, f)
	}
}

// fromServer makes calls from a connection of which only the server's end was captured.
func (o *observer) fromServer(s *messages.Socket) {
	turns := readTurns(&s.Receives, &s.Sends)
	for t, ok := turns.next(); ok; t, ok = turns.next() {
		f := foundCall{caller: calls.Outside}
		f.received, f.heard, f.replied = t.asked, t.lastAsked, t.answered
		f.callee = o.place(f.received.By)
		o.pass(&f, false)
	}
}

// add adds a call of which the client's end was captured.
func (o *observer) add(s *messages.Socket, f foundCall) {
	f.caller = o.place(f.sent.By)
	switch {
	case f.received != nil:
		f.callee = o.place(f.received.By)
	case s.Other != nil && o.of[s.Other].reader != nil:
		f.callee = o.place(o.of[s.Other].reader)
	default:
		f.callee = o.farPlace(s)
	}
	o.separateRefuted(&f)
}

func apart(a, b int) int { return max(a-b, b-a) }

// firstByte is the position of the first byte of a call.
func firstByte(c *messages.Call) uint64 { return c.Position }

func last(c *messages.Call) uint64 { return c.Position + uint64(c.Bytes) - 1 }

// A finder finds calls of one end of a connection.
type finder struct {
	r     *messages.Reader
	found *messages.Call // the call at which r is; nil: not known yet
}

// find finds the call that contains the byte at position byteOf(other), where other is a call of
// the other end. It returns nil if there is none, or if the position of either call is not exact.
// The positions must not decrease from one call of find to the next.
func (f *finder) find(other *messages.Call,
	byteOf func(*messages.Call) uint64) *messages.Call {
	if !other.Exact || other.Bytes == 0 {
		return nil
	}
	wanted := byteOf(other)
	for !f.r.Done && (f.r.Call.Bytes == 0 || last(&f.r.Call) < wanted) {
		f.r.Next()
		f.found = nil
	}
	if f.r.Done || firstByte(&f.r.Call) > wanted || !f.r.Call.Exact {
		return nil
	}
	if f.found == nil {
		found := f.r.Call
		f.found = &found
	}
	return f.found
}
