package link

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/cloudprofiler/cloudprofiler/blackbox/calls"
	"github.com/cloudprofiler/cloudprofiler/internal/callgen"
)

// A program replies, and then sends a call for the same request. Then the request is the cause,
// even while another request is open.
func TestCallAfterReply(t *testing.T) {
	app := callgen.App{Front: "front", Clients: true, Quantum_us: 1,
		Services: map[string]callgen.Service{
			"front": {Threads: 64, Scripts: [][]callgen.Step{
				{{Compute_us: 300, Spread: .5, Calls: []callgen.Target{{Service: "back"}}},
					{Compute_us: 100, Spread: .5,
						Calls: []callgen.Target{{Service: "log", Async: true}}}},
			}},
			"back": {Threads: 64, Scripts: [][]callgen.Step{{{Compute_us: 2000, Spread: .5}}}},
			"log":  {Threads: 64, Scripts: [][]callgen.Step{{{Compute_us: 500, Spread: .5}}}},
		}}
	set := callgen.Make(app, callgen.Options{Requests: 300, PerSecond: 100, Seed: 1})
	s := Judge(set, Methods[0].Link(&set.Seen))
	if s.Right*100 < 98*s.Links || s.SureWrong > 0 || s.Sure*100 < 95*s.Links {
		t.Errorf("calls after the reply: %+v", s)
	}
}

// A program sends calls by itself, at any moment. Then a request that was already answered is never
// called their cause.
func TestCallsWithoutRequest(t *testing.T) {
	random := rand.New(rand.NewPCG(22, 1))
	set := made("hotel", 300, 20)
	front, end := int32(-1), set.Calls[len(set.Calls)-1].Began_ns()
	for i, p := range set.Places {
		if p.Program == "frontend" {
			front = int32(i)
		}
	}
	begin, own := set.Calls[0].Began_ns(), map[int64]bool{}
	for range 300 {
		at := begin + random.Int64N(end-begin)
		own[at] = true
		set.Calls = append(set.Calls, calls.Call{Caller: front, Callee: front + 1, Sent_ns: at,
			Received_ns: at + 50_000, Replied_ns: at + 200_000, Got_ns: at + 250_000})
	}
	slices.SortFunc(set.Calls, func(a, b calls.Call) int {
		return int(a.Began_ns() - b.Began_ns())
	})
	closed := 0
	for i, l := range Methods[0].Link(&set.Seen) {
		c := &set.Calls[i]
		if own[c.Sent_ns] && l.Cause >= 0 && set.Calls[l.Cause].Replied_ns < c.Sent_ns {
			closed++
		}
	}
	if closed > 0 {
		t.Errorf("%d calls are linked to requests that had their reply before", closed)
	}
}

func TestSoon(t *testing.T) {
	idle := make([]int64, 100) // no request is open for 1000, each time
	for i := range idle {
		idle[i] = 1000
	}
	for _, c := range []struct {
		late []int64
		want int64
	}{
		{nil, 0},
		{[]int64{500}, 0},             // one call may be anywhere
		{[]int64{30, 20}, 30},         // two calls hardly both come so soon by chance
		{[]int64{9, 3, 5, 990, 7}, 9}, // one came by itself
		{[]int64{10, 120, 230, 340, 450, 560, 670, 780, 890, 1000}, 0},
	} {
		if got := soonTime(c.late, idle); got != c.want {
			t.Errorf("soon(%v) = %d, want %d", c.late, got, c.want)
		}
	}
}
