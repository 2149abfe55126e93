package paths

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/cloudprofiler/cloudprofiler/blackbox/calls"
	"github.com/cloudprofiler/cloudprofiler/blackbox/messages"
	"github.com/cloudprofiler/cloudprofiler/internal/simrun"
	"github.com/cloudprofiler/cloudprofiler/runs"
	"github.com/cloudprofiler/cloudprofiler/tscratio"
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

// If the data contradict the relation of two nodes, times that rest on it are estimates. Other
// times are not.
func TestSuspectTimes(t *testing.T) {
	dir, _ := capturedRun(t, "hotel", 60)
	seen, times := observeRun(t, dir)
	pairs, missing := dir.Relations()
	if len(pairs) == 0 || len(missing) > 0 {
		t.Fatalf("%d relations, missing %v", len(pairs), missing)
	}
	for i := range seen.Calls {
		sent, received := seen.moments[i].sent, seen.moments[i].received
		if sent == nil || sent.Log.Node != pairs[0].A.Name ||
			received.Log.Node != pairs[0].B.Name {
			continue
		}
		// The answer to a packet arrives 0.25 µs before it is sent.
		at := func(t uint64) tscratio.Interval { return tscratio.Interval{Lo: t, Hi: t} }
		transfer, err := times.Between(sent, received)
		if err != nil {
			t.Fatal(err)
		}
		x, y := sent.Lo_cycles, received.Lo_cycles
		returned := x + uint64(transfer.Lo) - simrun.Hz/4_000_000
		if err := pairs[0].Add(tscratio.Train{Exchanges: []tscratio.Exchange{
			{Sent: at(x), Received: at(y), Answered: at(y), Returned: at(returned)},
		}}); err != nil {
			t.Fatal(err)
		}
		break
	}
	name := filepath.Join(dir.Path, runs.RelationPath(pairs[0].A.Name, pairs[0].B.Name))
	if err := os.WriteFile(name, pairs[0].Encode(), 0o600); err != nil {
		t.Fatal(err)
	}
	a, err := Of(dir, Options{Reference: reference, Slowest: 60})
	if err != nil {
		t.Fatal(err)
	}
	estimates := 0
	for _, p := range a.Slowest {
		for _, c := range p.Calls {
			at := []string{p.Calls[0].To.Node, c.From.Node, c.To.Node}
			if c.Suspect != slices.Contains(at, pairs[0].B.Name) {
				t.Fatalf("%+v", c)
			}
			if c.Suspect {
				estimates++
			}
		}
	}
	if estimates == 0 {
		t.Error("no time is an estimate")
	}
}
