package link

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/cloudprofiler/cloudprofiler/blackbox/calls"
)

// piledCalls makes the calls of a program with a few workers, which two threads run by turns, like
// goroutines. Each worker handles a request: it may ask a store, then perhaps another one, then it
// sends a notice and replies. Directly afterwards, on the same thread, it takes one of the requests
// that wait: the first one, or a random one. Requests pile up in a quarter of the bursts.
func piledCalls(requests int, inTurn bool) *calls.Set {
	random := rand.New(rand.NewPCG(22, 5))
	set := &calls.Set{Truth: calls.Truth{Paths: requests}}
	set.Places = []calls.Place{{Program: "client"}, {Program: "pool"}, {Program: "store"},
		{Program: "other"}, {Program: "log"}}
	const us = 1000
	delay := func(mean float64) int64 { return int64(mean * us * math.Exp(random.NormFloat64())) }
	add := func(c calls.Call, cause int32, path int) int32 {
		set.Calls, set.Cause = append(set.Calls, c), append(set.Cause, cause)
		set.Path = append(set.Path, int32(path))
		return int32(len(set.Calls) - 1)
	}
	free, thread := make([]int64, 6), make([]uint32, 6)
	anyThread := func() uint32 { return uint32(1 + random.IntN(2)) }
	at := int64(1e9)
	for path := 0; path < requests; {
		at += 30_000 * us
		var waiting []int32
		burst := 2
		if random.IntN(4) == 0 {
			burst = 20
		}
		for range min(burst, requests-path) {
			at += delay(20)
			waiting = append(waiting, add(calls.Call{Callee: 1, Sent_ns: at - 50*us,
				Received_ns: at, ReceivedBy: anyThread()}, calls.NoCause, path))
			path++
		}
		for len(waiting) > 0 {
			worker := 0
			for i := range free {
				if free[i] < free[worker] {
					worker = i
				}
			}
			i := random.IntN(len(waiting))
			if inTurn {
				i = 0
			}
			r := waiting[i]
			waiting = append(waiting[:i], waiting[i+1:]...)
			by := thread[worker]
			if free[worker] < set.Calls[r].Received_ns {
				by = anyThread() // the worker slept
			}
			t := max(free[worker], set.Calls[r].Received_ns) + 5*us + delay(10)
			path := int(set.Path[r])
			for k := range int32(path % 3) {
				got, next := t+delay(600), anyThread()
				add(calls.Call{Caller: 1, Callee: 2 + k, Sent_ns: t, Received_ns: t + us,
					Replied_ns: got - us, Got_ns: got, SentBy: by, GotBy: next}, r, path)
				by, t = next, got+5*us+delay(10)
			}
			add(calls.Call{Caller: 1, Callee: 4, Sent_ns: t, Received_ns: t + us,
				Replied_ns: calls.Unknown, Got_ns: calls.Unknown, SentBy: by}, r, path)
			t += 5*us + delay(10)
			c := &set.Calls[r]
			c.Replied_ns, c.Got_ns, c.RepliedBy = t, t+50*us, by
			free[worker], thread[worker], at = t, by, max(at, t)
		}
	}
	set.Arrange()
	return set
}

// If requests pile up, a thread that has handled a request takes another one at once. Its next call
// does not belong to the first request. What cannot be known is not said.
func TestPiledUpRequests(t *testing.T) {
	set := piledCalls(1500, false)
	s := Judge(set, Methods[0].Link(&set.Seen))
	t.Logf("%+v", s)
	if s.SureWrong > 0 || s.SaidWrong > s.Links/500 || s.Said < s.Links/2 {
		t.Errorf("%+v", s)
	}
}

// If a program begins requests in the order in which they came, this order shows which of the
// waiting requests a thread takes.
func TestQueuedRequests(t *testing.T) {
	set := piledCalls(1500, true)
	s := Judge(set, Methods[0].Link(&set.Seen))
	t.Logf("%+v", s)
	if s.Links-s.Right > s.Links/100 || s.Said < s.Links*9/10 || s.SaidWrong > s.Links/500 {
		t.Errorf("%+v", s)
	}
}

// Threads of a pool overtake each other. The method must not take it for granted that they keep an
// order only because requests that came alone did.
func TestOrderOfAPool(t *testing.T) {
	set := poolCalls(300, true, true)
	if s := Judge(set, Methods[0].Link(&set.Seen)); s.SureWrong > 0 ||
		float64(s.Right) < 0.8*float64(s.Links) {
		t.Errorf("%+v", s)
	}
}
