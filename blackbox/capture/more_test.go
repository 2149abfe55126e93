package capture

import (
	"errors"
	"slices"
	"testing"

	"github.com/cloudprofiler/cloudprofiler/blackbox"
	"github.com/cloudprofiler/cloudprofiler/internal/conversation"
	"github.com/cloudprofiler/cloudprofiler/internal/privileged"
)

func TestParseAlso(t *testing.T) {
	for text, want := range map[string]Also{
		" threads  arrivals": {Arrivals: true, Threads: true},
		"calls":              {Arrivals: true, Calls: true},
	} {
		if a, err := ParseAlso(text); err != nil || a != want {
			t.Errorf("%q: %+v, %v", text, a, err)
		}
	}
	if a, err := ParseAlso(""); err != nil || a != (Also{}) {
		t.Errorf("%+v, %v", a, err)
	}
	if _, err := ParseAlso("arrivals,threads"); !errors.Is(err, ErrAlso) {
		t.Error(err)
	}
}

// A message that waits in the receiver's socket arrives when it is sent, and is received later.
func TestPrivilegedArrivals(t *testing.T) {
	privileged.Need(t)
	r := newRig(t, Options{Also: Also{Arrivals: true}})
	truth, _ := stepsOf(t, "wait")
	got := r.endCapture(t)
	received := map[uint64][]blackbox.Message{} // by cookie
	for _, m := range got.messages {
		if m.Kind == blackbox.Received {
			cookie := got.connections[m.Connection].Cookie
			received[cookie] = append(received[cookie], m)
		}
	}
	known := map[int]int{} // by the number of messages that waited
	late := 0
	var sent []step
	var ready step
	for i := 0; i < len(truth); i++ {
		switch d := truth[i]; d.What {
		case "sent":
			sent = append(sent, d)
			continue
		case "ready":
			ready = d
			continue
		case "received":
		default:
			continue
		}
		n := len(sent)
		for k := range n {
			d := truth[i+k]
			if len(received[d.Cookie]) == 0 {
				t.Fatalf("message %d is not captured", i)
			}
			m := received[d.Cookie][0]
			received[d.Cookie] = received[d.Cookie][1:]
			if !m.Arrived {
				continue
			}
			known[n]++
			from, to := m.Arrived_cycles, m.Arrived_cycles+m.Width_cycles
			if to < sent[k].Before || from > ready.After || m.Ended_cycles < d.Before ||
				m.Began_cycles > d.After {
				t.Fatalf("sent at %+v, ready at %+v, received at %+v: captured %+v", sent[k],
					ready, d, m)
			}
			if from > sent[k].After { // another thread of the kernel has handled it
				late++
			}
		}
		i, sent = i+n-1, nil
	}
	// Three messages wait. The arrivals of the last two are known.
	if known[1] != 40 || known[2] != 80 || known[3] != 80 || late > 100 {
		t.Errorf("arrivals that are known: %v; %d came after the call that sent", known, late)
	}
	t.Logf("%v, %d late", known, late)
}

// Whatever programs do, an arrival is after the beginning of the call that sent the last byte, and
// before the end of the call that received it.
func TestPrivilegedArrivalsOfAConversation(t *testing.T) {
	privileged.Need(t)
	r := newRig(t, Options{Also: Also{Arrivals: true}})
	server := conversation.Start(t, "server", "127.0.0.1:0", 7, 6, 300)
	client := conversation.Start(t, "client", server.Says(), 7, 6, 300)
	truth := append(client.Truth(t), server.Truth(t)...)
	got := r.endCapture(t)
	type way struct{ from, to int } // ports
	sent := map[way][]conversation.Call{}
	for _, c := range truth {
		if c.Sent {
			w := way{c.Ports[0], c.Ports[1]}
			sent[w] = append(sent[w], c)
		}
	}
	known, received := 0, 0
	compare(t, got, truth, func(s side, m blackbox.Message, c conversation.Call, before uint64) {
		if s.sent {
			return
		}
		received++
		if !m.Arrived {
			return
		}
		known++
		last, at := before+uint64(c.Bytes), uint64(0)
		for _, by := range sent[way{c.Ports[1], c.Ports[0]}] {
			if at += uint64(by.Bytes); at >= last {
				if m.Arrived_cycles+m.Width_cycles < by.Before || m.Arrived_cycles > c.After {
					t.Fatalf("sent by %+v, received by %+v: captured %+v", by, c, m)
				}
				return
			}
		}
		t.Fatalf("nobody sent byte %d of %+v", last, s)
	})
	if known < received/4 {
		t.Errorf("of %d received messages, the arrival of %d is known", received, known)
	}
	t.Logf("of %d received messages, the arrival of %d is known", received, known)
}

// happenedTo returns what happened to a socket.
func (c captureLog) happenedTo(cookie uint64) (all []blackbox.Happening) {
	for _, h := range c.happenings {
		if h.Connection != 0 && c.connections[h.Connection].Cookie == cookie {
			all = append(all, h)
		}
	}
	return all
}

// The log says when a connection is asked for, when it is complete at each end, and when it is
// closed.
func TestPrivilegedConnections(t *testing.T) {
	privileged.Need(t)
	r := newRig(t, Options{})
	truth, _ := stepsOf(t, "wait")
	got := r.endCapture(t)
	connect := truth[0]
	var closed []step
	for _, d := range truth {
		if d.What == "closed" {
			closed = append(closed, d)
		}
	}
	client, server := got.happenedTo(closed[0].Cookie), got.happenedTo(closed[1].Cookie)
	want := func(all []blackbox.Happening, what blackbox.What, thread int, from, to uint64) {
		t.Helper()
		for _, h := range all {
			if h.What != what {
				continue
			}
			if int(h.Thread) != thread || h.Ended_cycles < from || h.Began_cycles > to {
				t.Errorf("%+v, want it from %d to %d", h, from, to)
			}
			return
		}
		t.Errorf("no %v in %+v", what, all)
	}
	want(client, blackbox.Connecting, connect.Thread, connect.Before, connect.After)
	want(client, blackbox.Connected, 0, connect.Before, connect.After)
	want(server, blackbox.Accepted, 0, connect.Before, closed[0].Before)
	want(client, blackbox.Closed, 0, closed[0].Before, ^uint64(0))
	want(server, blackbox.Closed, 0, closed[0].Before, ^uint64(0))
	again := func(h blackbox.Happening) bool { return h.What == blackbox.Retransmitted }
	client, server = slices.DeleteFunc(client, again), slices.DeleteFunc(server, again)
	if len(client) != 3 || len(server) != 2 {
		t.Errorf("client %+v, server %+v", client, server)
	}
}

// Retransmissions by TCP are counted, and the place of their bytes in the stream is logged.
func TestPrivilegedRetransmissions(t *testing.T) {
	privileged.Need(t)
	r := newRig(t, Options{})
	truth, _ := stepsOf(t, "again")
	r.capture.Flush()
	stats := r.capture.Stats()
	got := r.endCapture(t)
	again := truth[len(truth)-1].N
	client := truth[1].Cookie
	var position uint64
	for _, m := range got.messages {
		if got.connections[m.Connection].Cookie == client && m.Bytes == 100 {
			position = m.Position
		}
	}
	n := 0
	for _, h := range got.happenedTo(client) {
		if h.What == blackbox.Retransmitted {
			if n++; h.Position != position || h.Bytes != 100 {
				t.Errorf("%+v, want position %d", h, position)
			}
		}
	}
	if n != again || n == 0 || stats.Retransmitted < uint64(n) {
		t.Errorf("%d of %d retransmissions are in the log; %+v", n, again, stats)
	}
}

// Each wake-up of a thread by another thread is in the log. Wake-ups by the clock are not, except
// if the clock interrupts a call that wakes threads.
func TestPrivilegedThreads(t *testing.T) {
	privileged.Need(t)
	r := newRig(t, Options{Also: Also{Threads: true}})
	truth, process := stepsOf(t, "threads")
	got := r.endCapture(t)
	var others step
	var forked, timeouts, byClock int
	var wakes []step
	threads := map[int]bool{}
	for _, d := range truth {
		switch d.What {
		case "woke":
			wakes = append(wakes, d)
		case "others":
			others = d
		case "thread":
			threads[d.Other] = true
		case "timeouts":
			timeouts = d.N
		case "forked":
			forked = d.Other
		}
	}
	counts := map[blackbox.What]int{}
	for _, h := range got.happenings {
		switch {
		case h.What == blackbox.Woke && int(h.Other) == others.Other:
			byClock++
		case h.What == blackbox.Woke && int(h.Other) == others.Thread && len(wakes) > 0:
			d := wakes[0]
			if int(h.Thread) == d.Thread && h.Ended_cycles >= d.Before &&
				h.Began_cycles <= d.After {
				wakes = wakes[1:]
			}
		case h.What == blackbox.Forked && int(h.Other) == forked && int(h.Process) == forked,
			h.What == blackbox.Executed && int(h.Thread) == process,
			h.What == blackbox.Exited && int(h.Thread) == process:
			counts[h.What]++
		case h.What == blackbox.Forked && int(h.Process) == process:
			delete(threads, int(h.Other))
		}
	}
	if len(wakes) > 0 || len(threads) > 8 || counts[blackbox.Forked] != 1 ||
		counts[blackbox.Executed] != 1 || counts[blackbox.Exited] != 1 {
		t.Errorf("%d wake-ups and %d of 16 threads are missing; %v", len(wakes), len(threads),
			counts)
	}
	if timeouts < 10 || byClock > timeouts/4 {
		t.Errorf("of %d wake-ups by the clock, %d are in the log", timeouts, byClock)
	}
	t.Logf("of %d wake-ups by the clock, %d are in the log", timeouts, byClock)
}
