package paths

import (
	"testing"

	"github.com/cloudprofiler/cloudprofiler/blackbox/calls"
	"github.com/cloudprofiler/cloudprofiler/blackbox/messages"
	"github.com/cloudprofiler/cloudprofiler/internal/simrun"
)

func refutesNothing(sent, received *messages.Call) bool { return false }

// If the bound proves that a message was received before it was sent, its ends belong to different
// calls. If the two moments are no further apart than the bound, nothing is proven.
func TestBoundRefutesMatches(t *testing.T) {
	dir, _ := capturedRun(t, "shop", 60)
	logs, err := messages.Logs(dir)
	if err != nil {
		t.Fatal(err)
	}
	times, err := messages.NewTimes(dir, messages.Options{Reference: reference.Node})
	if err != nil {
		t.Fatal(err)
	}
	sockets := messages.Sockets(logs)
	v := surveyed(t, sockets)
	time := newScale(times, reference, v).ns
	before := observeAll(t, v, time, boundRefutes(times), 0)
	if before.Refuted != 0 {
		t.Fatalf("%d true matches are refuted", before.Refuted)
	}
	// The clocks of the nodes are uncertain by some µs. Two receives are moved back by 5 ms: one on
	// another node than the sender's, and one on the sender's own node.
	var remote, local int
	for _, s := range sockets {
		if s.Other == nil || s.Receives.Len() == 0 || s.Other.Sends.Len() == 0 {
			continue
		}
		sent := s.Other.Sends.Read()
		if s.Receives.Read().Call.Position != sent.Call.Position || !v.of[s].receivesFirst {
			continue
		}
		moved := &remote
		if s.Log.Node == s.Other.Log.Node {
			moved = &local
		}
		if *moved++; *moved == 1 {
			var all []messages.Call
			for r := s.Receives.Read(); !r.Done; r.Next() {
				all = append(all, r.Call)
			}
			all[0].Lo_cycles -= simrun.Hz / 200
			all[0].Hi_cycles -= simrun.Hz / 200
			s.Receives = messages.SequenceOf(all)
		}
	}
	if remote == 0 || local == 0 {
		t.Fatal("there is no message to move")
	}
	after := observeAll(t, v, time, boundRefutes(times), 0)
	if after.Refuted != 1 || len(after.Calls) != len(before.Calls)+1 {
		t.Fatalf("%d matches are refuted; %d calls, and before %d", after.Refuted,
			len(after.Calls), len(before.Calls))
	}
	apart, outside := 0, 0
	for i := range after.Calls {
		c := &after.Calls[i]
		if c.Sent_ns != calls.Unknown && c.Received_ns == calls.Unknown {
			apart++
		}
		if c.Caller == calls.Outside {
			outside++
		}
		if m := after.moments[i]; boundRefutes(times)(m.sent, m.received) {
			t.Errorf("call %d was received before it was sent", i)
		}
	}
	if apart != 1 || outside != 61 {
		t.Errorf("%d calls have an unknown callee, and %d an unknown caller", apart, outside)
	}
}
