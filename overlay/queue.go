package overlay

import (
	"fmt"
	"slices"
)

// A queue carries work that many nodes make and few take. Each item stays at the node that made it
// (the maker) until a taker has finished it, so the item is lost only if its maker dies. The number
// of items that nobody holds is a kind of heat ([QueueHeat]), so climbs lead a taker to nodes with
// items.
//
// To get an item, a taker sends a Take, and the maker answers with a Given. The taker then holds
// the item for TakeLease, or for longer if it renews the lease by a Keep. If the taker dies, the
// maker gives the item to the next taker. A Keep with Done finishes the item. An item is finished
// only once: the maker refuses a Keep from a node that has lost the item to another.
type (
	// A Take asks for an item of a queue. It is a request. If the receiver has no item for the
	// sender, the answer is an Ack, and otherwise a Given.
	Take struct {
		ID    uint64
		Queue string
	}
	// A Given answers the request ID, which is a Take, with an item.
	Given struct {
		ID   uint64
		Item string
	}
	// A Keep renews the lease of an item, or finishes the item if Done is set. Take is the id of
	// the request by which the sender got the item. A Keep is a request. The answer says whether
	// the sender still held the item.
	Keep struct {
		ID, Take uint64
		Done     bool
	}
)

func (Take) message()  {}
func (Given) message() {}
func (Keep) message()  {}

// QueueHeat returns the name of the kind of heat that counts the waiting items of a queue.
func QueueHeat(queue string) string { return "queue=" + queue }

// item is work that this node has for others.
type item struct {
	queue, text string
	holder      Name   // the node that took it last, or ""
	take        uint64 // the request by which the holder took it
	until       Time   // the end of the holder's lease
}

func (i *item) free(now Time) bool { return i.holder == "" || i.until <= now }

// An Item is an item that this node has taken.
type Item struct {
	Maker Name
	Queue string
	Text  string
	take  uint64
}

// heldItem is an item that this node has taken and not finished.
type heldItem struct {
	Item
	renewAt Time
}

func checkItem(queue, text string) error {
	if !validHeat(QueueHeat(queue)) || queue == "" || len(text) > MaxFact {
		return fmt.Errorf("item %q of queue %q: need at most %d bytes, and a name of 1 to %d",
			text, queue, MaxFact, MaxFact-len(QueueHeat("")))
	}
	return nil
}

// Put puts an item into a queue. A text that the queue has already is not put again.
func (n *Node) Put(now Time, queue, text string) error {
	n.setTime(now)
	if err := checkItem(queue, text); err != nil {
		return err
	}
	if n.item(func(i *item) bool { return i.queue == queue && i.text == text }) != nil {
		return nil
	}
	if len(n.items) >= MaxItems {
		return fmt.Errorf("item %q of queue %q: the node has %d items already", text, queue,
			MaxItems)
	}
	n.items = append(n.items, &item{queue: queue, text: text})
	n.warmSoon()
	return nil
}

// Withdraw removes an item, even if a taker holds it. It reports whether the queue still had the
// item.
func (n *Node) Withdraw(now Time, queue, text string) bool {
	n.setTime(now)
	had := len(n.items)
	n.items = without(n.items,
		func(i *item) bool { return i.queue == queue && i.text == text })
	n.warmSoon()
	return len(n.items) < had
}

// Items returns the number of this node's items in a queue, and the number of those that takers
// hold.
func (n *Node) Items(now Time, queue string) (all, taken int) {
	n.setTime(now)
	for _, i := range n.items {
		if i.queue != queue {
			continue
		}
		all++
		if !i.free(n.now) {
			taken++
		}
	}
	return all, taken
}

func (n *Node) item(is func(*item) bool) *item {
	if i := slices.IndexFunc(n.items, is); i >= 0 {
		return n.items[i]
	}
	return nil
}

// ownHeats returns how hot this node itself is. Each queue with a free item is one kind of heat, as
// long as there is room for more kinds.
func (n *Node) ownHeats() []Heat {
	all := slices.Clone(n.heats)
	for _, it := range n.items {
		if !it.free(n.now) {
			continue
		}
		by := QueueHeat(it.queue)
		i := slices.IndexFunc(all, func(h Heat) bool { return h.By == by })
		switch {
		case i >= 0:
			all[i].Value++
		case len(all) < MaxHeats:
			all = append(all, Heat{by, 1})
		}
	}
	return all
}

func (n *Node) onTake(from Name, m Take) {
	if n.shunsNode(from) {
		return
	}
	again := n.item(func(i *item) bool { return i.holder == from && i.take == m.ID })
	if again == nil {
		a, ok := n.isFresh(from, m.ID)
		if !ok {
			return
		}
		again = n.giveItem(m.Queue, from, m.ID)
		if again == nil {
			n.answer(a, false)
			return
		}
	}
	n.send(from, Given{ID: m.ID, Item: again.text})
}

// giveItem gives away the oldest free item of a queue, or returns nil.
func (n *Node) giveItem(queue string, to Name, take uint64) *item {
	if n.leaving || n.mayTake != nil && !n.mayTake(queue, to) {
		return nil
	}
	i := n.item(func(i *item) bool { return i.queue == queue && i.free(n.now) })
	if i != nil {
		i.holder, i.take, i.until = to, take, n.now+TakeLease
		n.wakeAt(i.until)
		n.warmSoon()
	}
	return i
}

func (n *Node) onKeep(from Name, m Keep) {
	if a, ok := n.isFresh(from, m.ID); ok {
		n.answer(a, n.stillHolds(from, m.Take, m.Done))
	}
}

// stillHolds reports whether a node still holds an item. If so, it renews the lease or, if the work
// is done, removes the item.
func (n *Node) stillHolds(holder Name, take uint64, done bool) bool {
	i := n.item(func(i *item) bool { return i.holder == holder && i.take == take })
	if i == nil {
		return false
	}
	if i.until = n.now + TakeLease; done {
		n.items = without(n.items, func(other *item) bool { return other == i })
	}
	n.warmSoon()
	return true
}

// takeCall is a call of Take that still looks for an item.
type takeCall struct {
	queue  string
	hot    []Hot // nodes that are not asked yet
	rounds int   // climbs that remain
	done   func(Item, bool)
}

// Take takes an item of a queue from this node or, if this node has none, from a node to which a
// climb leads. It calls the function done once. If it got no item, ok is false: probably no node
// has a free one. If it got an item, this node renews the item's lease until [Node.Finish] is
// called.
func (n *Node) Take(now Time, queue string, done func(i Item, ok bool)) error {
	n.setTime(now)
	if err := checkItem(queue, ""); err != nil {
		return err
	}
	if len(n.held)+n.takings >= MaxHeld {
		return fmt.Errorf("take from queue %q: %d items are held already", queue, MaxHeld)
	}
	n.takings++
	t := &takeCall{queue: queue, rounds: len(takeWalks), done: done}
	id := n.random.Uint64()
	if own := n.giveItem(queue, n.self, id); own != nil {
		n.took(t, Item{n.self, queue, own.text, id})
		return nil
	}
	n.takeOn(t)
	return nil
}

// takeWalks has the number of walks in each climb of a Take. The first climb only looks nearby, and
// finds most items. The last climb is for the last items of a queue. With more walks, takers would
// exceed the number of walks that nodes accept.
var takeWalks = []int{1, 3, HeatWalks / 2}

// takeOn asks the next node or, if all have been asked, climbs again.
func (n *Node) takeOn(t *takeCall) {
	for len(t.hot) > 0 {
		next := t.hot[0].Name
		t.hot = t.hot[1:]
		if next == n.self {
			continue
		}
		id := n.random.Uint64()
		n.ask(next, id, Take{id, t.queue}, HopTries, tookFrom{t, next})
		return
	}
	if t.rounds == 0 || len(n.climbing) >= MaxSearches {
		n.takings--
		t.done(Item{}, false)
		return
	}
	walks := takeWalks[len(takeWalks)-t.rounds]
	t.rounds--
	n.climbBy(QueueHeat(t.queue), walks, TakeWait, func(hot []Hot) {
		t.hot = hot
		n.takeOn(t)
	})
}

// tookFrom is what this node does once a Take that it sent was answered.
type tookFrom struct {
	t     *takeCall
	maker Name
}

func (f tookFrom) proceed(n *Node, _ bool) { n.takeOn(f.t) }

// onGiven accepts only items that this node asked for. An item that comes too late becomes free
// again when its lease ends.
func (n *Node) onGiven(from Name, m Given) {
	i := n.waitingRequest(from, m.ID)
	if i < 0 || len(m.Item) > MaxFact {
		return
	}
	if f, ok := n.asked[i].then.(tookFrom); ok {
		n.asked = slices.Delete(n.asked, i, i+1)
		n.took(f.t, Item{from, f.t.queue, m.Item, m.ID})
	}
}

func (n *Node) took(t *takeCall, i Item) {
	n.takings--
	n.held = append(n.held, &heldItem{i, n.now + TakeRenew})
	n.wakeAt(n.now + TakeRenew)
	t.done(i, true)
}

// Finish ends this node's work on an item. The parameter done says whether the work is done. If it
// is not, the next taker gets the item when the lease ends. The callback gets true if this node
// finished the item, and false if not. If the maker does not answer, nobody knows whether the item
// is finished. Then the callback gets false, and the maker may still give the item to another node.
func (n *Node) Finish(now Time, i Item, done bool, over func(finished bool)) {
	n.setTime(now)
	had := len(n.held)
	n.held = without(n.held, func(h *heldItem) bool { return h.take == i.take })
	switch {
	case !done || len(n.held) == had:
		over(false)
	case i.Maker == n.self:
		over(n.stillHolds(n.self, i.take, true))
	default:
		id := n.random.Uint64()
		n.ask(i.Maker, id, Keep{id, i.take, true}, AskTries, afterFinish{over})
	}
}

// afterFinish is what this node does once a Keep with Done that it sent was answered. afterRenewal
// is what it does once a Keep without Done was answered.
type (
	afterFinish  struct{ over func(bool) }
	afterRenewal struct{ id uint64 } // of the Take
)

func (f afterFinish) proceed(_ *Node, ok bool) { f.over(ok) }

// If a node cannot renew an item, it no longer holds the item.
func (r afterRenewal) proceed(n *Node, ok bool) {
	if !ok {
		n.held = without(n.held, func(h *heldItem) bool { return h.take == r.id })
	}
}

// tickQueue renews the leases of the items that this node holds. If a lease of one of the node's
// own items has ended, neighbours must hear that the item is free again.
func (n *Node) tickQueue() {
	for _, h := range slices.Clone(n.held) {
		if h.renewAt > n.now {
			continue
		}
		h.renewAt = n.now + TakeRenew
		if h.Maker == n.self {
			n.stillHolds(n.self, h.take, false)
			continue
		}
		id := n.random.Uint64()
		n.ask(h.Maker, id, Keep{ID: id, Take: h.take}, AskTries, afterRenewal{h.take})
	}
	for _, i := range n.items {
		if i.holder != "" && i.until <= n.now {
			i.holder = ""
			n.warmSoon()
		}
	}
}

// queueDue returns the earliest time at which tickQueue has work.
func (n *Node) queueDue() Time {
	at := neverTime
	for _, h := range n.held {
		at = min(at, h.renewAt)
	}
	for _, i := range n.items {
		if i.holder != "" {
			at = min(at, i.until)
		}
	}
	return at
}
