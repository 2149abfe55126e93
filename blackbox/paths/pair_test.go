package paths

import (
	"maps"
	"slices"
	"testing"

	"github.com/cloudprofiler/cloudprofiler/blackbox"
	"github.com/cloudprofiler/cloudprofiler/blackbox/calls"
	"github.com/cloudprofiler/cloudprofiler/blackbox/link"
	"github.com/cloudprofiler/cloudprofiler/blackbox/messages"
	"github.com/cloudprofiler/cloudprofiler/internal/seed"
)

// A server receives requests on one connection. For each, it asks another server, which answers
// after a random time. The first server sends its responses in the order in which the other server
// answers. It sends each response by a separate system call. The response must become a part of the
// request that caused it.
func TestPipelined(t *testing.T) {
	server := &messages.Thread{Program: messages.Program{Node: "n", Name: "server"}, Process: 2}
	client := &messages.Thread{Program: messages.Program{Node: "n", Name: "client"}, Process: 1}
	log := &messages.Log{Node: "n"}
	call := func(by *messages.Thread, at, position uint64) messages.Call {
		return messages.Call{Log: log, By: by, Lo_cycles: at, Hi_cycles: at, Early: true,
			Exact: true, Position: position, Bytes: 1}
	}
	row := func(by *messages.Thread, at ...uint64) (all []messages.Call) {
		for i := range at {
			all = append(all, call(by, at[i], uint64(i)))
		}
		return all
	}
	tcp := &blackbox.Connection{Family: blackbox.IPv4, Protocol: blackbox.TCP}
	random := seed.Random(t)
	var sent, received, replied, got []uint64
	answered := map[int64][2]int64{} // when a request was answered, by when it was received
	var sockets []*messages.Socket
	for i := range uint64(30) {
		at := 1000 + 100*i
		sent, received = append(sent, at), append(received, at+10)
		own := at + 40*(1+random.Uint64N(10)) + i // when the server's own call is answered
		sockets = append(sockets, &messages.Socket{Log: log, Of: tcp,
			Sends:    messages.SequenceOf(row(server, at+11)),
			Receives: messages.SequenceOf(row(server, own))})
		replied, got = append(replied, own+5), append(got, own+15)
		answered[int64(at+10)] = [2]int64{int64(own + 5), int64(own + 15)}
	}
	slices.Sort(replied)
	slices.Sort(got)
	a := &messages.Socket{Log: log, Of: tcp, Sends: messages.SequenceOf(row(client, sent...)),
		Receives: messages.SequenceOf(row(client, got...))}
	b := &messages.Socket{Log: log, Of: tcp, Other: a,
		Receives: messages.SequenceOf(row(server, received...)),
		Sends:    messages.SequenceOf(row(server, replied...))}
	a.Other = b
	sockets = append(sockets, a, b)
	time := func(c *messages.Call) int64 { return int64(momentOf(c)) }
	seen := observeAll(t, surveyed(t, sockets), time, refutesNothing, 0)
	requests := map[int64]int32{}
	causes := map[int64]int32{}
	for i, c := range seen.Calls {
		if !c.Answers && c.Received_ns != calls.Unknown {
			requests[c.Received_ns] = int32(i)
			causes[answered[c.Received_ns][0]] = int32(i)
			if c.Connection != 1 || c.Replied_ns != calls.Unknown {
				t.Fatalf("request %+v", c)
			}
		}
	}
	links := make([]link.Link, len(seen.Calls))
	for i, c := range seen.Calls {
		links[i] = link.Link{Cause: calls.NoCause, Probability: 0.5}
		switch {
		case c.Answers && c.Connection == 1:
			links[i].Cause = causes[c.Sent_ns]
		case c.Received_ns == calls.Unknown:
			links[i].Cause = requests[c.Sent_ns-1] // each call follows its cause at once
		}
	}
	f := newForest(seen, links, map[string]int32{}, map[string]int32{})
	if len(f.roots) != 30 || f.probability[f.roots[0]] != 0.125 {
		t.Errorf("%d paths of probability %v", len(f.roots), f.probability[f.roots[0]])
	}
	for received, want := range answered {
		c := seen.Calls[requests[received]]
		if c.Replied_ns != want[0] || c.Got_ns != want[1] {
			t.Errorf("the request of %d was answered at %d and %d, want %v", received,
				c.Replied_ns, c.Got_ns, want)
		}
	}
}

// If nobody ever answers on a connection, its calls await no response, whether or not the calls fit
// into memory. A call whose response was lost does await one.
func TestOneWay(t *testing.T) {
	log := &messages.Log{Node: "n"}
	of := &blackbox.Connection{Family: blackbox.IPv4, Protocol: blackbox.UDP}
	by := &messages.Thread{Program: messages.Program{Node: "n", Name: "client"}, Process: 1}
	row := func(at ...uint64) messages.Sequence {
		var all []messages.Call
		for i, t := range at {
			all = append(all, messages.Call{Log: log, Connection: of, By: by, Lo_cycles: t,
				Hi_cycles: t, Exact: true, Position: uint64(i), Bytes: 1})
		}
		return messages.SequenceOf(all)
	}
	time := func(c *messages.Call) int64 { return int64(momentOf(c)) }
	sockets := []*messages.Socket{
		{Log: log, Of: of, Sends: row(10, 30)},
		{Log: log, Of: of, Sends: row(20, 40), Receives: row(25)},
	}
	for _, held := range []int{0, 1} {
		seen := observeAll(t, surveyed(t, sockets), time, refutesNothing, held)
		got := map[int64]bool{}
		for _, c := range seen.Calls {
			got[c.Sent_ns] = c.OneWay
		}
		want := map[int64]bool{10: true, 20: false, 30: true, 40: false}
		if !maps.Equal(got, want) {
			t.Errorf("%d calls in memory: one-way calls %v, want %v", held, got, want)
		}
	}
}
