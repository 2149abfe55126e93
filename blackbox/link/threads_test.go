package link

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/cloudprofiler/cloudprofiler/blackbox/calls"
)

// poolCalls makes the calls of a program with a pool of threads. One thread receives all requests.
// For each request, another thread of the pool sends a call, waits for the response, and replies.
// Delays vary so much that they say little. If mixed is true, all requests come over one
// connection, so that nobody knows which response belongs to which request.
func poolCalls(requests int, threads, mixed bool) *calls.Set {
	random := rand.New(rand.NewPCG(22, 1))
	set := &calls.Set{Truth: calls.Truth{Paths: requests}}
	set.Places = []calls.Place{{Program: "client"}, {Program: "pool"}, {Program: "store"}}
	delay := func(us float64) int64 { return int64(us * 1000 * math.Exp(random.NormFloat64())) }
	at := int64(1e9)
	free := make([]int64, 16)
	add := func(c calls.Call, cause, path int32) int32 {
		if !threads {
			c.SentBy, c.ReceivedBy, c.RepliedBy, c.GotBy = 0, 0, 0, 0
		}
		set.Calls, set.Cause = append(set.Calls, c), append(set.Cause, cause)
		set.Path = append(set.Path, path)
		return int32(len(set.Calls) - 1)
	}
	for path := range int32(requests) {
		at += delay(map[bool]float64{false: 200, true: 1200}[mixed])
		worker := 0
		for i := range free {
			if free[i] < free[worker] {
				worker = i
			}
		}
		by := uint32(2 + worker)
		received := max(at, free[worker])
		sent := received + delay(300)
		got := sent + delay(500)
		replied := got + delay(300)
		free[worker] = replied
		request := calls.Call{Callee: 1, Sent_ns: at - 50_000, Received_ns: at,
			Replied_ns: replied, Got_ns: replied + 50_000, ReceivedBy: 1, RepliedBy: by}
		if mixed {
			request.Connection, request.Replied_ns, request.Got_ns = 7, calls.Unknown, calls.Unknown
		}
		n := add(request, calls.NoCause, path)
		add(calls.Call{Caller: 1, Callee: 2, Sent_ns: sent, Received_ns: sent + 50_000,
			Replied_ns: got - 50_000, Got_ns: got, SentBy: by, GotBy: by}, n, path)
		if mixed {
			add(calls.Call{Caller: 1, Callee: 0, Sent_ns: replied, Received_ns: replied + 50_000,
				Replied_ns: calls.Unknown, Got_ns: calls.Unknown, Connection: 7, Answers: true,
				SentBy: by}, n, path)
		}
	}
	set.Arrange()
	return set
}

// Threads say which request caused a call even if delays do not. This holds even for a pool, in
// which one thread receives all requests and other threads handle them.
func TestThreadsOfAPool(t *testing.T) {
	set := poolCalls(400, false, false)
	if s := Judge(set, Methods[0].Link(&set.Seen)); float64(s.Right) > 0.9*float64(s.Links) {
		t.Errorf("without threads, %d of %d links are right: too easy", s.Right, s.Links)
	}
	set = poolCalls(400, true, false)
	if s := Judge(set, Methods[0].Link(&set.Seen)); float64(s.Right) < 0.995*float64(s.Links) ||
		s.SureWrong > 0 || float64(s.Sure) < 0.98*float64(s.Links) {
		t.Errorf("with threads: %+v", s)
	}
}

// If it is not known which response belongs to which request, the request of a response is found
// like other causes. It is never a request of another connection.
func TestMixedConnection(t *testing.T) {
	set := poolCalls(300, true, true)
	for i := range set.Calls {
		if i%4 == 0 && !set.Calls[i].Answers && set.Calls[i].Callee == 1 {
			// The requests of a second connection look like those of the first one.
			c := set.Calls[i]
			c.Connection = 8
			set.Calls = append(set.Calls, c)
			set.Cause, set.Path = append(set.Cause, calls.NoCause), append(set.Path, set.Path[i])
		}
	}
	set.Arrange()
	links := Methods[0].Link(&set.Seen)
	for i, l := range links {
		if c := set.Calls[i]; c.Answers && l.Cause >= 0 && set.Calls[l.Cause].Connection != 7 {
			t.Fatalf("answer %d: %+v", i, l)
		}
	}
	if s := Judge(set, links); float64(s.SureWrong) > 0.01*float64(s.Sure) ||
		float64(s.Right) < 0.8*float64(s.Links) {
		t.Errorf("%+v", s)
	}
}

// loopCalls makes the calls of a program with an event loop: one thread receives all messages that
// have come, and then sends what follows from each, in the same order. Several requests are open on
// the only connection.
func loopCalls(requests int) *calls.Set {
	random := rand.New(rand.NewPCG(22, 2))
	set := &calls.Set{Truth: calls.Truth{Paths: requests}}
	set.Places = []calls.Place{{Program: "client"}, {Program: "loop"}, {Program: "store"}}
	add := func(c calls.Call, cause, path int32) int32 {
		set.Calls, set.Cause = append(set.Calls, c), append(set.Cause, cause)
		set.Path = append(set.Path, path)
		return int32(len(set.Calls) - 1)
	}
	type job struct{ request, call, path int32 }
	ready := map[int][]job{} // by the turn of the loop in which the call is answered
	path := int32(0)
	for turn := 0; path < int32(requests) || len(ready) > 0; turn++ {
		const us = 1000
		at := int64(1e9) + int64(turn)*300*us
		var fresh []job
		for range random.IntN(3) {
			if path == int32(requests) {
				break
			}
			n := add(calls.Call{Callee: 1, Sent_ns: at - 50*us, Received_ns: at,
				Replied_ns: calls.Unknown, Got_ns: calls.Unknown, Connection: 7, ReceivedBy: 1},
				calls.NoCause, path)
			fresh = append(fresh, job{request: n, path: path})
			at += 5 * us
			path++
		}
		for _, j := range ready[turn] {
			set.Calls[j.call].Got_ns = at
			at += 5 * us
		}
		for _, j := range fresh {
			at += 10*us + random.Int64N(5*us)
			j.call = add(calls.Call{Caller: 1, Callee: 2, Sent_ns: at, Received_ns: at + 20*us,
				Replied_ns: at + 40*us, SentBy: 1, GotBy: 1}, j.request, j.path)
			later := turn + 1 + random.IntN(4)
			ready[later] = append(ready[later], j)
		}
		for _, j := range ready[turn] {
			at += 10*us + random.Int64N(5*us)
			add(calls.Call{Caller: 1, Sent_ns: at, Received_ns: at + 50*us,
				Replied_ns: calls.Unknown, Got_ns: calls.Unknown, Connection: 7, Answers: true,
				SentBy: 1}, j.request, j.path)
		}
		delete(ready, turn)
	}
	set.Arrange()
	return set
}

// An event loop receives several messages before it sends a call for the first of them. It keeps
// their order, and this order shows which call belongs to which message.
func TestOrderOfAnEventLoop(t *testing.T) {
	set := loopCalls(400)
	s := Judge(set, Methods[0].Link(&set.Seen))
	if float64(s.Right) < 0.97*float64(s.Links) || s.SaidWrong > s.Links/100 {
		t.Errorf("%+v", s)
	}
}

// Responses of an event loop come over a mixed connection. So the calls that the other program
// sends after a response can be linked only after the calls of the event loop.
func TestCallsAfterMixedResponses(t *testing.T) {
	set := loopCalls(400)
	random := rand.New(rand.NewPCG(22, 3))
	n := len(set.Calls)
	begun := make([]int32, set.Paths)
	add := func(c calls.Call, cause, path int32) int32 {
		set.Calls, set.Cause = append(set.Calls, c), append(set.Cause, cause)
		set.Path = append(set.Path, path)
		return int32(len(set.Calls) - 1)
	}
	const us = 1000
	for i := range n {
		if c := &set.Calls[i]; c.Caller == 0 {
			path := set.Path[i]
			c.SentBy = 8
			begun[path] = add(calls.Call{Caller: calls.Outside, Callee: 0,
				Sent_ns: calls.Unknown, Received_ns: c.Sent_ns - 20*us, Got_ns: calls.Unknown,
				ReceivedBy: 8, RepliedBy: 9}, calls.NoCause, path)
			set.Cause[i] = begun[path]
		}
	}
	for i := range n {
		if c := set.Calls[i]; c.Answers {
			r := begun[set.Path[i]]
			at := c.Received_ns + 3*us + random.Int64N(5*us)
			set.Calls[i].ReceivedBy, set.Calls[r].Replied_ns = 9, at+2*us+random.Int64N(300*us)
			add(calls.Call{Caller: 0, Callee: 2, SentBy: 9, Sent_ns: at, Received_ns: at + 20*us,
				Got_ns: calls.Unknown, Replied_ns: calls.Unknown}, r, set.Path[i])
		}
	}
	set.Arrange()
	all, right := 0, 0
	for i, l := range Methods[0].Link(&set.Seen) {
		if c := &set.Calls[i]; c.Caller == 0 && c.Callee == 2 {
			all++
			right += count(l.Cause == set.Cause[i])
		}
	}
	t.Logf("%d of %d", right, all)
	if right*100 < all*97 {
		t.Errorf("%d of %d links are right", right, all)
	}
}
