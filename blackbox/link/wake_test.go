package link

import (
	"cmp"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"

	"github.com/cloudprofiler/cloudprofiler/blackbox/calls"
)

// handedCalls makes the calls of a program with an event loop and workers. The loop receives
// several requests at nearly the same time, and hands each to a worker. Each worker sends a call,
// receives the response, and hands the request back to the loop, which replies in the order of
// these hand-overs. All times of workers vary so much that delays do not tell which worker has
// which request. If wakes is true, hand-overs to threads that sleep are known as wake-ups. One in
// ten workers did not sleep.
func handedCalls(requests, atOnce int, wakes bool) *calls.Set {
	random := rand.New(rand.NewPCG(22, 4))
	set := &calls.Set{Truth: calls.Truth{Paths: requests}}
	set.Places = []calls.Place{{Program: "client"}, {Program: "loop"}, {Program: "store"}}
	const us = 1000
	delay := func() int64 { return int64(200 * us * math.Exp(random.NormFloat64())) }
	type handOver struct {
		at     int64
		worker uint32
		path   int
	}
	var back []handOver
	at := int64(1e9)
	for path := range requests {
		at += 10 * us
		if path%atOnce == 0 {
			at += 5000 * us
		}
		by := uint32(2 + random.IntN(3) + 3*(path%atOnce))
		sent := at + 5*us + delay()
		got := sent + delay()
		back = append(back, handOver{got + delay(), by, path})
		call := calls.Call{Caller: 1, Callee: 2, Sent_ns: sent, Received_ns: sent + us,
			Replied_ns: got - us, Got_ns: got, SentBy: by, GotBy: by}
		if wakes && random.IntN(10) > 0 {
			call.SentWake = calls.Wake{By: 1, At_ns: at + 3*us}
		}
		set.Calls = append(set.Calls, calls.Call{Callee: 1, Sent_ns: at - 50*us, Received_ns: at,
			ReceivedBy: 1, RepliedBy: 1}, call)
		set.Cause = append(set.Cause, calls.NoCause, int32(2*path))
		set.Path = append(set.Path, int32(path), int32(path))
	}
	slices.SortFunc(back, func(a, b handOver) int { return cmp.Compare(a.at, b.at) })
	var woken calls.Wake
	at = 0 // the loop is busy until then
	for _, h := range back {
		if h.at >= at {
			at = h.at + 10*us
			if wakes {
				woken = calls.Wake{By: h.worker, At_ns: h.at}
			}
		}
		at += 5 * us
		c := &set.Calls[2*h.path]
		c.Replied_ns, c.Got_ns, c.RepliedWake = at, at+50*us, woken
	}
	set.Arrange()
	return set
}

// If several requests are handed over at nearly the same time, wake-ups tell them apart.
func TestWakeUps(t *testing.T) {
	for _, atOnce := range []int{2, 8} {
		set := handedCalls(600, atOnce, false)
		without := Methods[0].Link(&set.Seen)
		if s := Judge(set, without); float64(s.PathsRight) > 0.9*float64(s.Paths) {
			t.Errorf("%d at once, without wake-ups, %d of %d paths are right: too easy", atOnce,
				s.PathsRight, s.Paths)
		}
		for i := range set.Calls { // a thread that did nothing else tells nothing
			set.Calls[i].SentWake = calls.Wake{By: 99, At_ns: set.Calls[i].Sent_ns - 1}
		}
		if diff := gocmp.Diff(without, Methods[0].Link(&set.Seen)); diff != "" {
			t.Errorf("links with wake-ups that tell nothing (-without +with):\n%s", diff)
		}
		set = handedCalls(600, atOnce, true)
		if s := Judge(set, Methods[0].Link(&set.Seen)); s.SureWrong > 0 ||
			float64(s.PathsRight) < 0.99*float64(s.Paths) {
			t.Errorf("%d at once, with wake-ups: %+v", atOnce, s)
		}
	}
}

// A wake-up counts only if the thread that was woken has done nothing since. It belongs to the last
// event that the waking thread did before the wake-up.
func TestWokenSteps(t *testing.T) {
	seen := &calls.Seen{Places: make([]calls.Place, 2)}
	none := int64(calls.Unknown)
	add := func(caller, callee int32, at int64, by uint32, w calls.Wake) {
		c := calls.Call{Caller: caller, Callee: callee, Sent_ns: at, Received_ns: at,
			Replied_ns: none, Got_ns: none, SentWake: w}
		if caller == 0 {
			c.SentBy = by
		} else {
			c.ReceivedBy = by
		}
		seen.Calls = append(seen.Calls, c)
	}
	add(1, 0, 10, 1, calls.Wake{})
	add(1, 0, 20, 1, calls.Wake{})
	add(0, 1, 30, 2, calls.Wake{By: 1, At_ns: 15})
	add(0, 1, 31, 3, calls.Wake{By: 1, At_ns: 25})
	add(0, 1, 32, 3, calls.Wake{By: 1, At_ns: 25})
	add(0, 1, 33, 4, calls.Wake{By: 9, At_ns: 25})
	add(0, 1, 34, 5, calls.Wake{By: 1, At_ns: 35})
	p := placesOf(seen)[0]
	want := []step{{1, 0}, {1, 1}, {}, {}, {}}
	for i := range p.sends {
		if got := p.sends[i].sent.woken; got != want[i] {
			t.Errorf("call %d: woken after %+v, want %+v", i, got, want[i])
		}
	}
}

// The mark of a wake-up needs an event of the script, which need not be the last one.
func TestMarkOfWakeUp(t *testing.T) {
	by := func(thread, turn uint32, woken step) act {
		return act{step: step{thread, turn}, woken: woken}
	}
	c := crew{last: by(1, 7, step{})}
	for i, one := range []struct {
		act  act
		want mark
	}{
		{by(2, 0, step{1, 7}), markWoken},
		{by(3, 0, step{1, 7}), markWoken},
		{by(4, 0, step{1, 6}), markForeign},
		{by(4, 1, step{1, 7}), markStayed},
		{by(2, 1, step{}), markEarlier},
		{by(5, 0, step{}), markAnother},
	} {
		if got := c.joinEvent(one.act); got != one.want {
			t.Errorf("event %d: mark %d, want %d", i, got, one.want)
		}
	}
}
