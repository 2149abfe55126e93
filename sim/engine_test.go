package sim

import (
	"context"
	"strings"
	"testing"
)

// chatterProtocol is a protocol whose behaviour a test sets.
type chatterProtocol struct {
	receive func(c *Context, e *Event)
	seen    []Event
}

func (p *chatterProtocol) Receive(c *Context, e *Event) {
	p.seen = append(p.seen, *e)
	p.receive(c, e)
}

// fixedDelay is a transport with a fixed delay. A test may make this delay less than the one that
// Shortest returns, which is a mistake of a transport.
type fixedDelay struct{ delay, shortest Time }

func (t fixedDelay) Delay(*Context, Node) (Time, bool) { return t.delay, true }
func (t fixedDelay) Shortest() Time                    { return t.shortest }

func started(t *testing.T, p Protocol, tr Transport) *World {
	t.Helper()
	w := New(1, 1)
	w.End = 1000
	w.AddProtocol(p, Cycle{})
	w.Within(tr.Shortest())
	if _, err := w.Join(10); err != nil {
		t.Fatal(err)
	}
	return w
}

// TestProtocolsThatDoWrong checks that a mistake of a protocol ends the simulation, with an error
// that names the node and the time.
func TestProtocolsThatDoWrong(t *testing.T) {
	for want, c := range map[string]struct {
		tr Transport
		do func(c *Context, tr Transport)
	}{
		"node 3 at 5ns: protocol 0 sends to node 10, which does not exist": {fixedDelay{10, 10},
			func(c *Context, tr Transport) { c.Send(tr, 10, 0, 1, 0) }},
		"node 3 at 5ns: protocol 0 posts an event with the negative delay -7ns": {fixedDelay{-7, 1},
			func(c *Context, tr Transport) { c.Send(tr, 1, 0, 1, 0) }},
		"negative delay -1ns": {fixedDelay{1, 1},
			func(c *Context, _ Transport) { c.After(-1, 0, 1, 0) }},
		"protocol 0 sends to node 4 within 2ns, which is less than the transport's shortest": {
			fixedDelay{2, 100}, func(c *Context, tr Transport) { c.Send(tr, 4, 0, 1, 0) }},
		"events without delay cause each other without end": {fixedDelay{1, 1},
			func(c *Context, _ Transport) { c.After(0, 0, 1, 0) }},
	} {
		p := &chatterProtocol{}
		w := started(t, p, c.tr)
		p.receive = func(cx *Context, _ *Event) { c.do(cx, c.tr) }
		w.Post(5, 3, 0, 1, 0)
		if err := w.Run(context.Background()); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
}

// TestOrder posts events of one node out of order. The events must still happen in the right order.
func TestOrder(t *testing.T) {
	p := &chatterProtocol{receive: func(*Context, *Event) {}}
	w := started(t, p, fixedDelay{100, 100})
	for i, at := range []Time{30, 10, 20, 10, 999, 1000, 2000} {
		w.Post(at, 3, 0, 1, uint64(i))
	}
	p.receive = func(c *Context, e *Event) {
		if e.Word == 1 { // in the same window
			c.After(5, 0, 2, 100)
			c.After(0, 0, 2, 101)
		}
	}
	if err := w.Run(context.Background()); err != nil {
		t.Fatal(err)
	}
	var got []uint64
	for _, e := range p.seen {
		got = append(got, e.Word)
	}
	want := []uint64{1, 3, 101, 100, 2, 0, 4}
	if len(got) != len(want) {
		t.Fatalf("%v, want %v", got, want)
	}
	for i := range want {
		if got[i] != want[i] {
			t.Fatalf("%v, want %v", got, want)
		}
	}
}

// TestTheDeadGetNothing kills a node for which an event is on its way.
func TestTheDeadGetNothing(t *testing.T) {
	p := &chatterProtocol{receive: func(*Context, *Event) {}}
	w := started(t, p, fixedDelay{100, 100})
	w.Post(5, 3, 0, 1, 0)
	w.Post(5, 4, 0, 1, 0)
	w.Kill(3)
	if err := w.Run(context.Background()); err != nil {
		t.Fatal(err)
	}
	if len(p.seen) != 1 || p.seen[0].To != 4 {
		t.Errorf("%v", p.seen)
	}
	if w.Size() != 9 || w.Up(3) || !w.Up(9) || w.Living(3) != 9 {
		t.Errorf("%d nodes live, at the place of the dead one %d", w.Size(), w.Living(3))
	}
}

// TestAssign checks that shards move only if that helps.
func TestAssign(t *testing.T) {
	load := func(n byte) []byte { return []byte{n, 0, 0, 0, 0, 0, 0, 0} }
	for _, c := range []struct {
		loads        []byte
		owners, want []int
	}{
		{[]byte{10, 10, 10, 10}, []int{0, 1, 2, 2}, []int{0, 1, 0, 1}}, // the third one leaves
		{[]byte{90, 1, 1, 1}, []int{0, 0, 1, 2}, []int{0, 1, 1, 1}},
		{[]byte{10, 10, 10, 10}, []int{0, 1, 0, 1}, []int{0, 1, 0, 1}},
		{[]byte{90, 10, 10, 10}, []int{0, 0, 1, 1}, []int{0, 1, 1, 1}},
		{[]byte{90, 1, 1, 1}, []int{0, 1, 1, 1}, []int{0, 1, 1, 1}}, // cannot be better
	} {
		var loads [][]byte
		for _, n := range c.loads {
			loads = append(loads, load(n))
		}
		got, err := assignShards(loads, c.owners, 2)
		if err != nil {
			t.Fatal(err)
		}
		for i := range got {
			if got[i] != c.want[i] {
				t.Errorf("loads %v of %v go to %v, want %v", c.loads, c.owners, got, c.want)
				break
			}
		}
	}
}
