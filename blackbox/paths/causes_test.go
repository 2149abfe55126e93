package paths

import (
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
