package link

import (
	"math/rand/v2"
	"testing"

	"github.com/cloudprofiler/cloudprofiler/blackbox/calls"
)

// noticeCalls makes the calls of a program that receives a request about every 5 ms. For some
// requests, it sends a notice within 0.5 ms, which nobody answers. For others, it asks the same
// callee 5 to 5.5 ms after the request. For the rest, it sends nothing. If notices and calls were
// of one kind, each of them could belong to the last request or to the one before.
func noticeCalls(requests int) *calls.Set {
	random := rand.New(rand.NewPCG(22, 12))
	set := &calls.Set{Seen: calls.Seen{Places: []calls.Place{{Program: "a"}, {Program: "b"}}}}
	add := func(c calls.Call, cause int32) {
		set.Calls, set.Cause = append(set.Calls, c), append(set.Cause, cause)
		set.Path = append(set.Path, int32(set.Paths-1))
	}
	const ms = 1_000_000
	at := int64(0)
	for range requests {
		at += 5*ms + random.Int64N(ms/10)
		cause := int32(len(set.Calls))
		set.Paths++
		add(calls.Call{Caller: calls.Outside, Callee: 0, Sent_ns: calls.Unknown, Received_ns: at,
			Replied_ns: at + 6*ms + random.Int64N(30*ms), Got_ns: calls.Unknown}, calls.NoCause)
		kind := random.IntN(3)
		if kind == 0 {
			continue
		}
		c := calls.Call{Caller: 0, Callee: 1, Sent_ns: at + random.Int64N(ms/2),
			Replied_ns: calls.Unknown, Got_ns: calls.Unknown, OneWay: kind == 2}
		if kind == 1 {
			c.Sent_ns += 5 * ms
			c.Replied_ns, c.Got_ns = c.Sent_ns+300_000, c.Sent_ns+400_000
		}
		c.Received_ns = c.Sent_ns + 50_000
		add(c, cause)
	}
	set.Arrange()
	return set
}

// A notice and a call that awaits a response follow a request after different delays, although they
// go to one program.
func TestNoticesAndCalls(t *testing.T) {
	set := noticeCalls(2000)
	s := Judge(set, Methods[0].Link(&set.Seen))
	t.Logf("%+v", s)
	if float64(s.Right) < 0.97*float64(s.Links) || s.SureWrong > s.Sure/500 {
		t.Errorf("%+v", s)
	}
}
