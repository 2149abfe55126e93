package replay

import (
	"encoding/binary"
	"iter"
	"math/big"
	"math/rand/v2"
	"slices"
	"sort"
)

// Orders are the orders in which events may be replayed (the linear extensions): if event a is
// before event b, then a comes before b in all of these orders. Events are numbered from 0. Any
// number of goroutines may use Orders.
type Orders struct {
	lanes [][]int   // the events of each node, in their order
	lane  []int     // of each event
	place []int     // of each event in its lane
	need  [][]int32 // of each event: how many events of each lane are before it
}

// NewOrders returns the orders of events. The slice lane says to which node each event belongs. A
// node's events must be numbered in the order in which they happened. The function before must be a
// partial order that includes the order of each node's events.
func NewOrders(lane []int, before func(i, j int) bool) *Orders {
	o := &Orders{lane: lane, place: make([]int, len(lane)), need: make([][]int32, len(lane))}
	for i, l := range lane {
		for len(o.lanes) <= l {
			o.lanes = append(o.lanes, nil)
		}
		o.place[i] = len(o.lanes[l])
		o.lanes[l] = append(o.lanes[l], i)
	}
	all := make([]int32, len(lane)*len(o.lanes))
	for j := range lane {
		o.need[j] = all[j*len(o.lanes) : (j+1)*len(o.lanes)]
		for l, events := range o.lanes {
			o.need[j][l] = int32(sort.Search(len(events), func(k int) bool {
				return !before(events[k], j)
			}))
		}
		o.need[j][lane[j]] = int32(o.place[j])
	}
	return o
}

// Len is the number of events.
func (o *Orders) Len() int { return len(o.lane) }

// Before reports whether event i is before event j in all orders.
func (o *Orders) Before(i, j int) bool { return o.need[j][o.lane[i]] > int32(o.place[i]) }

// Done says how far a replay has come: how many events of each node it has taken.
type Done []int32

// Begin is the beginning of a replay.
func (o *Orders) Begin() Done { return make(Done, len(o.lanes)) }

// Front returns the events that may come next, by node. All events before them are done.
func (o *Orders) Front(d Done) (front []int) { return o.front(nil, d) }

func (o *Orders) front(into []int, d Done) []int {
next:
	for l, events := range o.lanes {
		if int(d[l]) == len(events) {
			continue
		}
		e := events[d[l]]
		for m, n := range o.need[e] {
			if n > d[m] {
				continue next
			}
		}
		into = append(into, e)
	}
	return into
}

// Take replays an event of the front.
func (o *Orders) Take(d Done, event int) { d[o.lane[event]]++ }

// Undo takes back the event that was replayed last on its node.
func (o *Orders) Undo(d Done, event int) { d[o.lane[event]]-- }

// Free is the number of pairs of events that may come in either order.
func (o *Orders) Free() (pairs uint64) {
	for j := range o.need {
		for l, events := range o.lanes {
			if l > o.lane[j] {
				// The number of events of the lane that come after event j.
				after := len(events) - sort.Search(len(events), func(k int) bool {
					return o.Before(j, events[k])
				})
				pairs += uint64(len(events) - after - int(o.need[j][l]))
			}
		}
	}
	return pairs
}

// All enumerates the orders. Where several events may come next, it begins with the event of the
// lowest lane. The slice is valid until the next order. The caller may stop after any order.
func (o *Orders) All() iter.Seq[[]int] {
	return func(yield func([]int) bool) {
		d, order := o.Begin(), make([]int, 0, o.Len())
		var extend func() bool
		extend = func() bool {
			if len(order) == o.Len() {
				return yield(order)
			}
			for _, e := range o.Front(d) {
				o.Take(d, e)
				order = append(order, e)
				if !extend() {
					return false
				}
				order = order[:len(order)-1]
				o.Undo(d, e)
			}
			return true
		}
		extend()
	}
}

// Counted knows the number of orders, and draws orders at random.
type Counted struct {
	of *Orders
	// Orders is the number of orders. It is nil if replays can pass through more than MaxStates
	// states.
	Orders *big.Int
	rest   map[string]*big.Int // the number of ways to go on from each state
}

// MaxStates is the largest number of states of a replay that Count considers. Each takes about 100
// bytes.
const MaxStates = 1 << 19

// Count counts the orders, unless replays can pass through more than MaxStates states.
func (o *Orders) Count() *Counted {
	c := &Counted{of: o}
	layers := [][]Done{{o.Begin()}}
	states := 1
	var front []int
	for range o.Len() {
		seen := map[string]bool{}
		var next []Done
		for _, d := range layers[len(layers)-1] {
			front = o.front(front[:0], d)
			for _, e := range front {
				o.Take(d, e)
				if k := d.key(); !seen[k] {
					seen[k] = true
					next = append(next, slices.Clone(d))
				}
				o.Undo(d, e)
			}
		}
		if states += len(next); states > MaxStates {
			return c
		}
		layers = append(layers, next)
	}
	c.rest = make(map[string]*big.Int, states)
	for i := len(layers) - 1; i >= 0; i-- {
		for _, d := range layers[i] {
			n := new(big.Int)
			if i == o.Len() {
				n.SetInt64(1)
			}
			front = o.front(front[:0], d)
			for _, e := range front {
				o.Take(d, e)
				n.Add(n, c.rest[d.key()])
				o.Undo(d, e)
			}
			c.rest[d.key()] = n
		}
	}
	c.Orders = c.rest[o.Begin().key()]
	return c
}

func (d Done) key() string {
	b := make([]byte, 0, 4*len(d))
	for _, n := range d {
		b = binary.LittleEndian.AppendUint32(b, uint32(n))
	}
	return string(b)
}

// Sample draws an order. If the orders were counted, each order is equally likely, and exact is
// true. If not, Sample begins with any order and exchanges neighbouring events at random, a limited
// number of times. Then nobody knows whether all orders are about equally likely.
func (c *Counted) Sample(rng *rand.Rand) (order []int, exact bool) {
	d := c.of.Begin()
	var front []int
	for range c.of.Len() {
		front = c.of.front(front[:0], d)
		at := 0
		if c.Orders != nil {
			pick := randBelow(rng, c.rest[d.key()])
			for ; ; at++ {
				c.of.Take(d, front[at])
				n := c.rest[d.key()]
				c.of.Undo(d, front[at])
				if pick.Cmp(n) < 0 {
					break
				}
				pick.Sub(pick, n)
			}
		}
		c.of.Take(d, front[at])
		order = append(order, front[at])
	}
	if c.Orders != nil {
		return order, true
	}
	n := len(order)
	for range min(n*n*n, 20_000_000) {
		if k := rng.IntN(n - 1); rng.IntN(2) == 0 && !c.of.Before(order[k], order[k+1]) {
			order[k], order[k+1] = order[k+1], order[k]
		}
	}
	return order, false
}

// randBelow returns a random number below n.
func randBelow(rng *rand.Rand, n *big.Int) *big.Int {
	words := make([]big.Word, len(n.Bits())+1) // long enough that the remainder is nearly uniform
	for i := range words {
		words[i] = big.Word(rng.Uint64())
	}
	return new(big.Int).Mod(new(big.Int).SetBits(words), n)
}

// Close marks an event, and all events before it, as done. It returns how many events are then done
// in all.
func (o *Orders) Close(d Done, event int) (length int) {
	for l, n := range o.need[event] {
		d[l] = max(d[l], n)
	}
	l := o.lane[event]
	d[l] = max(d[l], int32(o.place[event])+1)
	for _, n := range d {
		length += int(n)
	}
	return length
}

// End is the state in which all events are done.
func (o *Orders) End() Done {
	d := o.Begin()
	for l, events := range o.lanes {
		d[l] = int32(len(events))
	}
	return d
}

// Within reports whether a replay with the state d has taken an event.
func (o *Orders) Within(event int, d Done) bool { return int32(o.place[event]) < d[o.lane[event]] }

// Need says how many events of each node are before an event. The caller must not change the slice.
func (o *Orders) Need(event int) []int32 { return o.need[event] }
