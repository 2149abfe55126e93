package paths

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/cloudprofiler/cloudprofiler/blackbox"
	"github.com/cloudprofiler/cloudprofiler/blackbox/calls"
	"github.com/cloudprofiler/cloudprofiler/blackbox/messages"
)

// The threads that send a request and its response were woken by others, whether or not the calls
// fit into memory.
func TestWakes(t *testing.T) {
	log := &messages.Log{Node: "n"}
	tcp := &blackbox.Connection{Family: blackbox.IPv4, Protocol: blackbox.TCP}
	row := func(name string, process uint32, at ...uint64) messages.Sequence {
		var all []messages.Call
		by := &messages.Thread{Program: messages.Program{Node: "n", Name: name}, Process: process,
			Number: process}
		for i, t := range at {
			c := messages.Call{Log: log, Connection: tcp, By: by, Lo_cycles: t, Hi_cycles: t + 2,
				Exact: true, Position: uint64(i), Bytes: 1}
			if i == 1 { // the first one was not woken
				c.Waker, c.Woken_cycles = 7*process, t-3
			}
			all = append(all, c)
		}
		return messages.SequenceOf(all)
	}
	a := &messages.Socket{Log: log, Of: tcp, Sends: row("client", 1, 10, 50),
		Receives: row("client", 1, 40, 80)}
	b := &messages.Socket{Log: log, Of: tcp, Sends: row("server", 2, 30, 70),
		Receives: row("server", 2, 20, 60), Other: a}
	a.Other = b
	time := func(c *messages.Call) int64 { return int64(momentOf(c)) }
	for _, held := range []int{0, 1} {
		seen := observeAll(t, surveyed(t, []*messages.Socket{a, b}), time, refutesNothing, held)
		var got [][2]calls.Wake
		for i := range seen.Calls {
			got = append(got, [2]calls.Wake{seen.Calls[i].SentWake, seen.Calls[i].RepliedWake})
		}
		want := [][2]calls.Wake{{}, {{By: 7, At_ns: 47}, {By: 14, At_ns: 67}}}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%d calls in memory: wake-ups (-want +got):\n%s", held, diff)
		}
	}
}
