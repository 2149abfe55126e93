package overlay

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cloudprofiler/cloudprofiler/internal/proof"
	"github.com/cloudprofiler/cloudprofiler/internal/seed"
)

// worker is a node of a simulation that takes items, works on each for a while, and finishes it.
type worker struct {
	f        *fleet
	m        *member
	until    map[Item]Time // the end of the work
	finished func(Item)
	idle     Time // when no item was found last; 0: never
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
// it holds items. Nevertheless, each item is finished once, except those of a maker that dies.
func TestQueue(t *testing.T) {
	seed.NotUnderRace(t, "the fleet is one goroutine")
	f := newFleet(t, rand.New(rand.NewPCG(seed.Of(t), 0)), 7)
	f.growTo(200)
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
	// Two kinds of items may still be open: those that the dead taker had made, and those that it
	// had finished just before it died.
	for text := range open {
		maker := f.byName[Name(strings.Fields(text)[0])].node
		if maker != nil && maker.item(func(i *item) bool { return i.text == text }) == nil {
			continue // the dead taker had finished it, and could not say so any more
		}
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
	net := &lastMessage{}
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

// TestQueueOrder repeats an experiment of the thesis on KELP: in each period, ten nodes put an item
// into a queue, and ten take one. The rank of a taken item is its place among all items by age,
// where the oldest has 100 %. In the thesis, the mean rank is 72 to 84 %, and 52 to 71 % of the
// items are among the oldest fifth. Here the order must be closer to that of a single central
// queue, because a taker asks a node with many items for its oldest. No item may be lost or taken
// twice.
func TestQueueOrder(t *testing.T) {
	seed.NotUnderRace(t, "the fleet is one goroutine")
	type size struct{ nodes, periods, backlog int }
	sizes := []size{{100, 400, 30}}
	if wanted, err := proof.Wanted(); err != nil {
		t.Fatal(err)
	} else if wanted == proof.Full {
		sizes = []size{{100, 4000, 300}, {1000, 400, 30}}
	}
	for _, s := range sizes {
		n, periods, backlog := s.nodes, s.periods, s.backlog
		f := newFleet(t, rand.New(rand.NewPCG(seed.Of(t), 0)), 7)
		f.growTo(n)
		f.whole(healLimit)
		var all []string // by age
		made := 0
		put := func(m *member) {
			text := fmt.Sprint(made)
			made++
			all = append(all, text)
			if err := m.node.Put(f.now, "q", text); err != nil {
				t.Fatal(err)
			}
			f.watch(m)
		}
		var makers, takers []*member
		for range 10 {
			makers = append(makers, chooseRandom(f.random, f.nodes))
			takers = append(takers, chooseRandom(f.random, f.nodes))
		}
		for range backlog {
			for _, m := range makers {
				put(m)
			}
		}
		f.run(30 * time.Second)
		var sum, taken, oldest5, oldest10, empty float64
		take := func(m *member) {
			err := m.node.Take(f.now, "q", func(i Item, ok bool) {
				if !ok {
					empty++
					return
				}
				at := slices.Index(all, i.Text)
				if at < 0 {
					t.Fatalf("%q is taken twice", i.Text)
				}
				rank := 1 - float64(at)/float64(len(all))
				all = slices.Delete(all, at, at+1)
				sum += rank
				taken++
				if rank >= 0.8 {
					oldest5++
				}
				if rank >= 0.9 {
					oldest10++
				}
				m.node.Finish(f.now, i, true, func(bool) {})
			})
			if err != nil { // it still looks for many others
				empty++
			}
			f.watch(m)
		}
		for range periods {
			for i := range makers {
				put(makers[i])
				take(takers[i])
			}
			f.run(time.Second)
		}
		f.run(time.Minute)
		left := 0
		for _, m := range f.nodes {
			count, _ := m.node.Items(f.now, "q")
			left += count
		}
		t.Logf("%d nodes: mean rank %.1f %%, %.1f %% of the items among the oldest fifth, %.1f %% "+
			"among the oldest tenth; %.2f %% of the takers found nothing", n, 100*sum/taken,
			100*oldest5/taken, 100*oldest10/taken, 100*empty/float64(10*periods))
		if left != len(all) || made != left+int(taken) {
			t.Errorf("of %d items %v were taken, and %d are left, not %d", made, taken, left,
				len(all))
		}
		if sum/taken < 0.69 || oldest5/taken < 0.52 || empty > float64(periods) {
			t.Errorf("%d nodes: the order is worse than in the thesis", n)
		}
	}
}
