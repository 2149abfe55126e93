package link

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/cloudprofiler/cloudprofiler/blackbox/calls"
)

// mixedCalls makes the requests and responses of one mixed connection. A request is answered after
// 0.5 to 2 ms, but the last 40 requests come at once, and the data end before their responses. With
// the returned truth, seen.Known leads from each response to its request.
func mixedCalls() *calls.Seen {
	random := rand.New(rand.NewPCG(22, 7))
	seen := &calls.Seen{Quantum_ns: 1, Places: []calls.Place{{Program: "a"}, {Program: "b"}},
		Known: map[int32]int32{}}
	for i := range int64(1000) {
		at := i * 1_000_000
		if i >= 960 {
			at = 970_000_000
		}
		seen.Calls = append(seen.Calls, calls.Call{Caller: 0, Callee: 1, Sent_ns: at,
			Received_ns: at + 1000, Replied_ns: calls.Unknown, Got_ns: calls.Unknown,
			Connection: 1})
		request := int32(len(seen.Calls) - 1)
		if at += 500_000 + random.Int64N(1_500_000); i < 960 {
			seen.Known[int32(len(seen.Calls))] = request
			seen.Calls = append(seen.Calls, calls.Call{Caller: 1, Callee: 0, Sent_ns: at,
				Received_ns: at + 1000, Replied_ns: calls.Unknown, Got_ns: calls.Unknown,
				Connection: 1, Answers: true})
		}
	}
	return seen
}

// Requests at the end of the data lack their responses. That does not mean that responses were
// lost: the others still count as open for a short time only, and at least until their responses.
// This also holds if the data begin in the middle.
func TestOpenRequests(t *testing.T) {
	whole := mixedCalls()
	for _, from_ns := range []int64{0, 300_000_000} {
		seen := *whole
		response := map[int64]int64{} // by when the request was received
		for answer, request := range whole.Known {
			response[whole.Calls[request].Received_ns] = whole.Calls[answer].Sent_ns
		}
		seen.Known = nil
		seen.Calls = slices.DeleteFunc(slices.Clone(whole.Calls), func(c calls.Call) bool {
			return c.Sent_ns < from_ns
		})
		for _, p := range placesOf(&seen) {
			for _, r := range p.requests {
				at, isAnswered := response[r.from]
				if isAnswered && (r.until < at || r.until > r.from+50_000_000) {
					t.Fatalf("from %d ns on: the request of %d ns counts as open until %d ns, and "+
						"its response was sent at %d ns", from_ns, r.from, r.until, at)
				}
			}
		}
	}
}

// If responses are missing from the data, their order tells nothing: all requests count as open for
// longer.
func TestOpenRequestsWithLostResponses(t *testing.T) {
	seen := mixedCalls()
	seen.Known = nil
	n := 0
	seen.Calls = slices.DeleteFunc(seen.Calls, func(c calls.Call) bool {
		n++
		return c.Answers && n%10 == 0
	})
	for _, p := range placesOf(seen) {
		for _, r := range p.requests {
			if r.until < r.from+20_000_000 {
				t.Fatalf("the request of %d ns counts as open until %d ns", r.from, r.until)
			}
		}
	}
}

// While no request of a mixed connection counts as open, a stray call does not show that the
// program sends such calls by itself: the links of strays are doubted. If the program often sends
// calls of a kind by itself, they are no strays.
func TestStrays(t *testing.T) {
	for _, c := range []struct{ every, said int }{{every: 40}, {every: 1, said: 960}} {
		seen := mixedCalls()
		seen.Known = nil
		seen.Calls = seen.Calls[:len(seen.Calls)-40] // all requests have responses
		seen.Places = append(seen.Places, calls.Place{Program: "c"})
		strays := map[int32]bool{}
		for i := range int64(960) {
			at := i*1_000_000 + 10_000
			if i%2 == 0 {
				seen.Calls = append(seen.Calls, calls.Call{Caller: 1, Callee: 2, Sent_ns: at,
					Received_ns: at + 1000, Replied_ns: at + 2000, Got_ns: at + 3000})
			}
			if i%int64(c.every) == 0 {
				strays[int32(len(seen.Calls))] = true
				late := 3_000_000_000 + 1_000_000*i
				seen.Calls = append(seen.Calls, calls.Call{Caller: 1, Callee: 2, Sent_ns: late,
					Received_ns: late + 1000, Replied_ns: late + 2000, Got_ns: late + 3000})
			}
		}
		said := 0
		for i, l := range Methods[0].Link(seen) {
			said += count(strays[int32(i)] && l.Cause == calls.NoCause && l.Probability >= Said)
		}
		if said != c.said {
			t.Errorf("%d of %d calls are said to have no cause", said, len(strays))
		}
	}
}
