package paths

import (
	"math"
	"testing"

	"github.com/cloudprofiler/cloudprofiler/blackbox/calls"
	"github.com/cloudprofiler/cloudprofiler/blackbox/link"
	"github.com/cloudprofiler/cloudprofiler/blackbox/messages"
)

// The cause of a message is the last one that was received for the same request. If another call
// may belong to the request, the cause is less sure.
func TestCauses(t *testing.T) {
	at := func(cycles uint64) *messages.Call {
		return &messages.Call{Lo_cycles: cycles, Hi_cycles: cycles}
	}
	s := &Seen{}
	s.Places = []calls.Place{{Program: "a"}, {Program: "b"}}
	s.Calls = []calls.Call{{Caller: -1, Callee: 0}, {Caller: 0, Callee: 1}, {Caller: 0, Callee: 1}}
	s.moments = []moments{
		{heard: at(10), replied: at(50)}, {sent: at(20), got: at(30)}, {sent: at(35), got: at(40)},
	}
	links := []link.Link{{}, {Cause: 0, Probability: 0.8, RunnerUp: -1},
		{Cause: -1, Probability: 0.9, RunnerUp: 0, RunnerUpProbability: 0.1}}
	type cause struct {
		received    uint64
		probability float64
	}
	want := map[uint64]cause{50: {30, 0.8 * 0.9}, 20: {10, 0.8}, 35: {0, 0.9}}
	n := 0
	newCauses(s, links).each(func(c Cause) {
		n++
		got := cause{probability: c.Probability}
		if c.Received != nil {
			got.received = c.Received.Lo_cycles
		}
		if w := want[c.Sent.Lo_cycles]; got.received != w.received ||
			got.probability < w.probability-1e-9 || got.probability > w.probability+1e-9 {
			t.Errorf("the message of %d: %+v, want %+v", c.Sent.Lo_cycles, got, w)
		}
	})
	if n != len(want) {
		t.Errorf("%d causes, want %d", n, len(want))
	}
}

// A link names only two requests. A response may still belong to another request that was open.
func TestCausesOfUnnamedRequests(t *testing.T) {
	at := func(cycles uint64) *messages.Call {
		return &messages.Call{Lo_cycles: cycles, Hi_cycles: cycles}
	}
	s := &Seen{}
	s.Places = []calls.Place{{Program: "a"}, {Program: "b"}}
	links := []link.Link{}
	for i := range int64(3) {
		s.Calls = append(s.Calls, calls.Call{Caller: -1, Callee: 0, Received_ns: 10 + i,
			Replied_ns: 50 + i})
		s.moments = append(s.moments,
			moments{heard: at(uint64(10 + i)), replied: at(uint64(50 + i))})
		links = append(links, link.Link{})
	}
	// The first call's link leaves 0.15 to the third request.
	s.Calls = append(s.Calls, calls.Call{Caller: 0, Callee: 1, Sent_ns: 20, Got_ns: 30})
	s.moments = append(s.moments, moments{sent: at(20), got: at(30)})
	links = append(links, link.Link{Cause: 0, Probability: 0.6, RunnerUp: 1,
		RunnerUpProbability: 0.25})
	// The second call surely belongs to the first request. But its response, on a mixed connection,
	// is that of another call with a probability of 0.4, which two other open requests may have
	// sent.
	s.Calls = append(s.Calls, calls.Call{Caller: 0, Callee: 1, Sent_ns: 22, Got_ns: calls.Unknown,
		Connection: 1}, calls.Call{Caller: 1, Callee: 0, Sent_ns: 35, Received_ns: 40,
		Connection: 1, Answers: true})
	s.moments = append(s.moments, moments{sent: at(22)}, moments{sent: at(35), received: at(40)})
	links = append(links, link.Link{Cause: 0, Probability: 1, RunnerUp: calls.NoCause},
		link.Link{Cause: 4, Probability: 0.6, RunnerUp: calls.NoCause})
	want := map[uint64]float64{50: 0.6, 51: 0.75 * 0.8, 52: 0.85 * 0.8}
	newCauses(s, links).each(func(c Cause) {
		w, is := want[c.Sent.Lo_cycles]
		if is && math.Abs(c.Probability-w) > 1e-9 {
			t.Errorf("the cause of the reply of %d has the probability %v, want %v",
				c.Sent.Lo_cycles, c.Probability, w)
		}
		delete(want, c.Sent.Lo_cycles)
	})
	if len(want) > 0 {
		t.Errorf("no causes of %v", want)
	}
}
