package paths

import (
	"sort"

	"github.com/cloudprofiler/cloudprofiler/blackbox/calls"
	"github.com/cloudprofiler/cloudprofiler/blackbox/messages"
)

// On most connections, requests and responses take turns: a request is what the client sends until
// it receives, and a response is what it receives until it sends again. On others, several requests
// are open at the same time. Then the two ends see different numbers of turns. If both ends sent
// equally often, each call that sent is a request or a response, and responses have the order of
// the requests. Otherwise turns are the best guess.

// A turn is a request and its response, as one end sees them.
type turn struct {
	out, in [2]int // from and to of the calls that sent, and of those that received
}

// turns divides the calls of a socket. asks are the calls of the request: those that sent for a
// client, those that received for a server.
func turns(asks, answers []messages.Call) (all []turn) {
	i, k := 0, 0
	for k < len(answers) && (len(asks) == 0 || at(&answers[k]) < at(&asks[0])) {
		k++ // the response to a request from before the capture, or a greeting
	}
	for i < len(asks) {
		t := turn{out: [2]int{i, i}, in: [2]int{k, k}}
		for i < len(asks) && (k == len(answers) || at(&asks[i]) <= at(&answers[k])) {
			i++
		}
		for k < len(answers) && (i == len(asks) || at(&answers[k]) < at(&asks[i])) {
			k++
		}
		t.out[1], t.in[1] = i, k
		all = append(all, t)
	}
	return all
}

// at is the moment of a call on its node's counter.
func at(c *messages.Call) uint64 { return c.Lo_cycles/2 + c.Hi_cycles/2 }

// fromClient makes calls from a connection of which the client's end was captured.
func (o *observer) fromClient(s *messages.Socket) {
	if len(s.Sends) == 0 {
		return
	}
	own := turns(s.Sends, s.Receives)
	if s.Other != nil {
		theirs := turns(s.Other.Receives, s.Other.Sends)
		if apart(len(own), len(theirs)) > 1 {
			if apart(len(s.Sends), len(s.Other.Sends)) <= 2+len(s.Sends)/100 {
				o.pipelined(s)
				return
			}
			o.seen.Mixed++
		}
	}
	for _, t := range own {
		var f found
		f.sent = &s.Sends[t.out[0]]
		if t.in[1] > t.in[0] {
			f.got = &s.Receives[t.in[1]-1]
		}
		if s.Other != nil {
			f.received = containing(s.Other.Receives, f.sent, first)
			if f.got != nil {
				f.replied = containing(s.Other.Sends, f.got, last)
			}
		}
		o.add(s, f)
	}
}

// pipelined makes calls from a connection on which several requests are open at the same time.
func (o *observer) pipelined(s *messages.Socket) {
	responses := s.Other.Sends
	for len(responses) > 0 && len(s.Other.Receives) > 0 &&
		at(&responses[0]) < at(&s.Other.Receives[0]) {
		responses = responses[1:]
	}
	for i := range s.Sends {
		f := found{moments: moments{sent: &s.Sends[i]}}
		f.received = containing(s.Other.Receives, f.sent, first)
		if i < len(responses) {
			f.replied = &responses[i]
			f.got = containing(s.Receives, f.replied, last)
		}
		o.add(s, f)
	}
}

// fromServer makes calls from a connection of which only the server's end was captured.
func (o *observer) fromServer(s *messages.Socket) {
	for _, t := range turns(s.Receives, s.Sends) {
		f := found{caller: calls.Outside}
		f.received = &s.Receives[t.out[0]]
		f.callee = o.place(f.received.By)
		if t.in[1] > t.in[0] {
			f.replied = &s.Sends[t.in[1]-1]
		}
		o.found = append(o.found, f)
	}
}

// add adds a call of which the client's end was captured.
func (o *observer) add(s *messages.Socket, f found) {
	f.caller = o.place(f.sent.By)
	switch {
	case f.received != nil:
		f.callee = o.place(f.received.By)
	case s.Other != nil && len(s.Other.Receives) > 0:
		f.callee = o.place(s.Other.Receives[0].By)
	default:
		f.callee = o.far(s)
	}
	o.found = append(o.found, f)
}

func apart(a, b int) int { return max(a-b, b-a) }

// first is the position of the first byte of a call.
func first(c *messages.Call) uint64 { return c.Position }

func last(c *messages.Call) uint64 { return c.Position + uint64(c.Bytes) - 1 }

// containing returns the call that has a byte of a call at the other end, or nil if it is not
// known.
func containing(all []messages.Call, other *messages.Call,
	byteOf func(*messages.Call) uint64) *messages.Call {
	wanted := byteOf(other)
	i := sort.Search(len(all), func(i int) bool { return last(&all[i]) >= wanted })
	if !other.Exact || i == len(all) || first(&all[i]) > wanted || !all[i].Exact {
		return nil
	}
	return &all[i]
}
