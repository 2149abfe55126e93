package link

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/cloudprofiler/cloudprofiler/blackbox/calls"
)

// slowStart makes calls of a pool of threads that sends one call for each request. It is slow at
// first, as programs in Java are: for its first requests, it sends the call only after 250 ms.
func slowStart() *calls.Set {
	random := rand.New(rand.NewPCG(22, 8))
	set := &calls.Set{Truth: calls.Truth{Paths: 2000}}
	set.Places = []calls.Place{{Program: "client"}, {Program: "pool"}, {Program: "store"}}
	const us = 1000
	for path := range int64(2000) {
		at := path*5000*us + random.Int64N(1000*us)
		if path%10 < 5 { // five come at about the same time
			at -= path % 10 * 4950 * us
		}
		sent := at + 50*us + random.Int64N(50*us)
		if path < 5 {
			sent = 250_000*us + random.Int64N(3000*us)
		}
		got := sent + 200*us + random.Int64N(100*us)
		request, thread := int32(len(set.Calls)), uint32(10+path%8)
		set.Calls = append(set.Calls, calls.Call{Callee: 1, Sent_ns: at - 20*us, Received_ns: at,
			Replied_ns: got + 50*us, Got_ns: got + 70*us, ReceivedBy: uint32(1 + path%5),
			RepliedBy: thread},
			calls.Call{Caller: 1, Callee: 2, Sent_ns: sent, Received_ns: sent + 20*us,
				Replied_ns: got - 20*us, Got_ns: got, SentBy: thread, GotBy: thread})
		set.Cause = append(set.Cause, calls.NoCause, request)
		set.Path = append(set.Path, int32(path), int32(path))
	}
	set.Arrange()
	return set
}

// A call at a strange moment is no call without a cause if the program sends none by itself. This
// must also hold at the beginning of a stream's part.
func TestSlowStart(t *testing.T) {
	set := slowStart()
	for name, links := range map[string][]Link{"stream": streamed(set, 0),
		"whole": Methods[0].Link(&set.Seen)} {
		if s := Judge(set, links); s.SaidWrong > 0 || s.Said < s.Links-10 {
			t.Errorf("%s: %+v", name, s)
		}
	}
}

// If a sharing gives calls to no request, although the program sent none while no request was open,
// the links are doubted.
func TestTooManyCallsAlone(t *testing.T) {
	set := slowStart()
	places := placesOf(&set.Seen)
	i := slices.IndexFunc(places, func(p place) bool { return p.number == 1 })
	p := newProgram(places[i:i+1], programNumbers(&set.Seen), 1, nil)
	w := p.windows(defaultWindow)[0]
	p.openWindow(w)
	p.learn(1, 1)
	s := p.sharers[0]
	const alone = 20
	for c := range int32(alone) {
		if r := s.owner[c]; r >= 0 {
			s.scripts[r] = slices.DeleteFunc(s.scripts[r], func(k int32) bool { return k == c })
			s.owner[c], s.current[r] = -1, false
		}
		s.pinned[c], s.active[c] = true, nil
	}
	all := noLinks(&set.Seen)
	p.answer(w, all)
	for c := range alone {
		if l := all[s.sends[c].call]; l.Cause != calls.NoCause || l.Probability > 0.5 {
			t.Errorf("call %d: %+v", c, l)
		}
	}
}

// Few calls of a kind do not show that a program sends such calls by itself. So the only call of a
// kind is not said to have no cause for sure, whether it is the only call of all or one of many.
func TestFewCallsOfAKind(t *testing.T) {
	for _, requests := range []int64{1, 2, 3, 5, 30} {
		for _, rare := range []bool{false, true} {
			set := &calls.Set{}
			set.Places = []calls.Place{{Program: "client"}, {Program: "front"}, {Program: "back"},
				{Program: "rare"}}
			const ms = 1e6
			for path := range int32(requests) {
				at, request := int64(path)*9*ms, int32(len(set.Calls))
				set.Calls = append(set.Calls, calls.Call{Callee: 1, Sent_ns: at - ms,
					Received_ns: at, Replied_ns: at + 10*ms, Got_ns: at + 11*ms})
				set.Cause, set.Path = append(set.Cause, calls.NoCause), append(set.Path, path)
				callees := []int32{2}
				if rare && int64(path) == requests/2 {
					callees = []int32{2, 3}
				}
				for i, callee := range callees {
					sent := at + 2*ms + int64(i)*ms
					set.Calls = append(set.Calls, calls.Call{Caller: 1, Callee: callee,
						Sent_ns: sent, Received_ns: sent + ms, Replied_ns: sent + 3*ms,
						Got_ns: sent + 4*ms})
					set.Cause, set.Path = append(set.Cause, request), append(set.Path, path)
				}
			}
			set.Truth.Paths = int(requests)
			set.Arrange()
			s := Judge(set, Methods[0].Link(&set.Seen))
			if s.SureWrong > 0 || s.Right < s.Links-2 {
				t.Errorf("%d requests, a rare call %v: %+v", requests, rare, s)
			}
		}
	}
}
