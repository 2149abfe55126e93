package overlay

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/cloudprofiler/cloudprofiler/internal/seed"
)

// worker is a node of a simulation that takes items, works on each for a while, and finishes it.
type worker struct {
	f        *fleet
	m        *member
	until    map[Item]Time // the end of the work
	finished func(Item)
	idle     Time // since when no item was found; 0: it was not
	looking  int
}

func (w *worker) step() {
	f := w.f
	if w.m.node == nil {
		return
	}
	for i, end := range w.until {
		if f.now >= end {
			delete(w.until, i)
			w.m.node.Finish(f.now, i, true, func(ok bool) {
				if ok {
					w.finished(i)
				}
			})
		}
	}
	for len(w.until)+w.looking < 4 {
		w.looking++
		if err := w.m.node.Take(f.now, "logs", func(i Item, ok bool) {
			w.looking--
			if !ok {
				w.idle = max(w.idle, f.now)
				return
			}
			w.until[i] = f.now + 3*time.Second
		}); err != nil {
			f.t.Fatal(err)
		}
	}
	f.watch(w.m)
}

// Many nodes make items, and three take them, over links that lose messages. One taker dies while
// it holds items. Each item is finished once all the same, except those of a maker that dies.
func TestQueue(t *testing.T) {
	seed.NotUnderRace(t, "the fleet is one goroutine")
	f := newFleet(t, rand.New(rand.NewPCG(seed.Of(t), 0)), 7)
	f.grow(200)
	f.whole(healLimit)
	f.loss = 0.02
	const each = 2
	open := map[string]bool{}
	for i, m := range f.nodes {
		for j := range each {
			text := fmt.Sprint(m.name, " ", j)
			open[text] = true
			if err := m.node.Put(f.now, "logs", text); err != nil {
				t.Fatal(err)
			}
		}
		f.watch(m)
		if all, taken := m.node.Items(f.now, "logs"); all != each || taken != 0 {
			t.Fatalf("node %d has %d items, of which %d are taken", i, all, taken)
		}
	}
	began, by := f.now, map[Name]int{}
	var workers []*worker
	for _, m := range f.nodes[:3] {
		workers = append(workers, &worker{f: f, m: m, until: map[Item]Time{},
			finished: func(i Item) {
				if by[m.name]++; !open[i.Text] {
					t.Errorf("%q is finished twice", i.Text)
				}
				delete(open, i.Text)
			}})
	}
	maker := f.nodes[150]
	for f.now-began < 5*time.Minute && len(open) > 0 {
		for _, w := range workers {
			w.step()
		}
		f.run(200 * time.Millisecond)
		if f.now-began == 10*time.Second {
			if len(workers[1].until) == 0 {
				t.Error("the taker that dies holds nothing")
			}
			for text := range open { // the items of the maker that dies
				if text == string(maker.name)+" 0" || text == string(maker.name)+" 1" {
					delete(open, text)
				}
			}
			workers[1].m.node, maker.node = nil, nil
		}
	}
	t.Logf("%d items in %v, by taker %v", each*len(f.nodes), f.now-began, by)
	// What the taker that died had not finished, and its own items, nobody can take any more.
	for text := range open {
		if text != string(f.nodes[1].name)+" 0" && text != string(f.nodes[1].name)+" 1" {
			t.Errorf("%q was never finished", text)
		}
	}
	if by[f.nodes[0].name] < 50 || by[f.nodes[2].name] < 50 {
		t.Errorf("the takers finish %v items", by)
	}
	// Once the queue is empty, takers hear that.
	f.run(HeatLife)
	empty := false
	err := f.nodes[0].node.Take(f.now, "logs", func(_ Item, ok bool) { empty = !ok })
	if err != nil {
		t.Fatal(err)
	}
	f.watch(f.nodes[0])
	f.run(time.Minute)
	if !empty {
		t.Error("a taker does not hear that the queue is empty")
	}
}

// A maker gives an item to one node at a time, and only to nodes that may take it.
func TestItemHasOneHolder(t *testing.T) {
	net := &nowhere{}
	may := func(queue string, taker Name) bool { return queue == "q" && taker != "stranger" }
	n, err := New(Config{Name: "me", Degree: 7, Random: rand.New(rand.NewPCG(1, 0)),
		Transport: net, MayTake: may})
	if err != nil {
		t.Fatal(err)
	}
	for range 2 { // the second time changes nothing
		if err := n.Put(0, "q", "a"); err != nil {
			t.Fatal(err)
		}
	}
	takes := func(now Time, from Name, id uint64) bool {
		n.Receive(now, from, Take{id, "q"})
		switch m := net.last.(type) {
		case Given:
			return m == Given{id, "a"} && net.to == from
		case Ack:
			return m.OK
		}
		t.Fatalf("%T answers", net.last)
		return false
	}
	keeps := func(now Time, from Name, m Keep) bool {
		n.Receive(now, from, m)
		a, ok := net.last.(Ack)
		return ok && a.ID == m.ID && a.OK
	}
	const second = Time(time.Second)
	for i, step := range []struct{ got, want bool }{
		{takes(0, "stranger", 1), false},
		{takes(0, "x", 2), true},
		{takes(second, "x", 2), true},                   // it comes again, with the same answer
		{takes(second, "y", 3), false},                  // x holds the item
		{keeps(second, "y", Keep{4, 2, true}), false},   // so y cannot finish it
		{keeps(5*second, "x", Keep{5, 2, false}), true}, // x renews it
		{takes(TakeLease+second, "y", 6), false},        // so the lease is longer
		{takes(5*second+TakeLease+1, "y", 7), true},     // x is gone
		{keeps(6*second+TakeLease, "x", Keep{8, 2, true}), false},
		{keeps(6*second+TakeLease, "y", Keep{9, 7, true}), true},
		{keeps(7*second+TakeLease, "y", Keep{9, 7, true}), true}, // it comes again
		{keeps(7*second+TakeLease, "y", Keep{10, 7, true}), false},
		{takes(8*second+TakeLease, "x", 11), false}, // the queue is empty
	} {
		if step.got != step.want {
			t.Errorf("step %d: %v", i, step.got)
		}
	}
	if all, _ := n.Items(n.now, "q"); all != 0 {
		t.Errorf("%d items are left", all)
	}
	// An item for which nobody asked is not taken.
	n.Receive(n.now, "liar", Given{99, "b"})
	if len(n.held) > 0 {
		t.Error("takes what nobody asked for")
	}
	for i := range MaxItems + 1 {
		if err := n.Put(n.now, "q", fmt.Sprint(i)); (err != nil) != (i == MaxItems) {
			t.Fatalf("item %d: %v", i, err)
		}
	}
	if !n.Withdraw(n.now, "q", "7") || n.Withdraw(n.now, "q", "7") {
		t.Error("an item is not withdrawn once")
	}
}
