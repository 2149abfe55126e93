package sim

import (
	"fmt"
	"math/bits"
	"sync"
)

// worker works on some of the shards.
type worker struct {
	w       *World
	index   int
	context Context

	// out has, for each shard, events that were posted in this window. The shard's worker collects
	// them in the next window.
	out      []outbox
	earliest moment // of the events in out

	// These belong to the window and the shard that the worker works on.
	batch []Event
	next  []int32           // for each event of the batch, another event of its node, or -1
	head  [ShardNodes]int32 // for each node, one of its events in the batch
	due   [ShardNodes / 64]uint64
	turn  []Event // events of one node
	event Event   // the event that happens now

	warmed uint64 // stops the compiler from removing reads

	events, local, remote   uint64
	localDelay, remoteDelay Time
	_                       [64]byte // puts the next worker's fields on other cache lines
}

// outbox has posted events, and the values that they carry.
type outbox struct {
	events []Event
	values []any
}

func (k *worker) post(shard int, e Event, value any) {
	box := &k.out[shard]
	if e.Kind&bulky != 0 {
		e.Word = uint64(len(box.values))
		box.values = append(box.values, value)
	}
	box.events = append(box.events, e)
	if m := (moment{e.At, e.round}); m.before(k.earliest) {
		k.earliest = m
	}
}

// sent counts a message that takes the given time.
func (k *worker) sent(to Node, d Time) {
	owner := k.w.owners[shardOf(to)]
	if owner == k.w.owners[k.context.shard.index] {
		k.local++
		k.localDelay += d
	} else {
		k.remote++
		k.remoteDelay += d
	}
}

// collect puts all events that workers have posted for a shard into the shard's queue.
func (w *World) collect(s *shard) {
	for _, k := range w.workers {
		box := &k.out[s.index]
		if len(box.events) == 0 {
			continue
		}
		for _, e := range box.events {
			if e.Kind&bulky != 0 {
				e.Word = s.keep(box.values[e.Word])
			}
			s.queue.push(e)
		}
		box.events = box.events[:0]
		clear(box.values)
		box.values = box.values[:0]
	}
}

// run runs the events of a shard that come before a given moment. Only the order of the events of
// one node matters. So the worker handles one node after the other, which also uses the cache well.
func (k *worker) run(s *shard, until moment) {
	c := &k.context
	c.shard, c.until = s, until
	k.batch = s.queue.take(k.batch[:0], until)
	s.queue.advance(min(until.at, k.w.End))
	if len(k.next) < len(k.batch) {
		k.next = make([]int32, 2*len(k.batch))
	}
	for i := range k.batch {
		n := inShard(k.batch[i].To)
		if bit := uint64(1) << (n % 64); k.due[n/64]&bit == 0 {
			k.due[n/64] |= bit
			k.next[i] = -1
		} else {
			k.next[i] = k.head[n]
		}
		k.head[n] = int32(i)
	}
	k.warm(s)
	before := k.events
	for word := range k.due {
		for k.due[word] != 0 && c.err == nil {
			n := word*64 + bits.TrailingZeros64(k.due[word])
			k.due[word] &= k.due[word] - 1
			k.turn = k.turn[:0]
			for i := k.head[n]; i >= 0; i = k.next[i] {
				k.insert(k.batch[i])
			}
			k.node(s)
		}
		k.due[word] = 0
	}
	s.events += k.events - before
	c.until = moment{}
}

// warm reads what the events of a batch will need. These reads do not depend on each other, so the
// CPU waits for many of them at the same time.
func (k *worker) warm(s *shard) {
	turns, sum := k.w.turns.shards[s.index], uint64(0)
	for i := range k.batch {
		e := &k.batch[i]
		sum += turns[inShard(e.To)].drawn
		if e.Kind&bulky != 0 && s.values[e.Word] != nil {
			sum++
		}
		if p := k.w.warmers[e.Protocol]; p != nil {
			sum += p.Warm(e)
		}
	}
	k.warmed = sum
}

// insert puts an event into the sorted events of a node.
func (k *worker) insert(e Event) {
	k.turn = append(k.turn, e)
	for i := len(k.turn) - 1; i > 0 && k.turn[i].before(&k.turn[i-1]); i-- {
		k.turn[i], k.turn[i-1] = k.turn[i-1], k.turn[i]
	}
}

// node runs the events of one node. An event may add later events of the node.
func (k *worker) node(s *shard) {
	c, w := &k.context, k.w
	for i := 0; i < len(k.turn) && c.err == nil; i++ {
		k.event = k.turn[i] // a local variable would be allocated
		e := &k.event
		if !w.Up(e.To) {
			if e.Kind&bulky != 0 {
				s.take(e.Word)
			}
			continue
		}
		k.events++
		c.enter(e.To, moment{e.At, e.round})
		if e.Kind == TimerKind {
			w.cycle(c, e)
		} else {
			w.protocols[e.Protocol].Receive(c, e)
			if e.Kind&bulky != 0 {
				s.take(e.Word)
			}
		}
		c.leave()
	}
}

// cycle gives a protocol its turn and posts the next one.
func (w *World) cycle(c *Context, e *Event) {
	p := w.protocols[e.Protocol].(Cycled)
	cycle := w.cycles[e.Protocol]
	p.NextCycle(c)
	if cycle.Until == 0 || c.now.at+cycle.Step < cycle.Until {
		c.After(cycle.Step, e.Protocol, TimerKind, 0)
	}
}

// workerOf returns the worker of a shard of this process.
func (w *World) workerOf(shard int) int {
	if w.exchange != nil || w.direct {
		return 0
	}
	return w.owners[shard]
}

// parallel calls f for each worker at the same time, and returns the first error in the order of
// the workers.
func (w *World) parallel(f func(*worker)) error {
	if len(w.workers) == 1 || w.direct || w.exchange != nil {
		f(w.workers[0])
		return w.failed()
	}
	var wait sync.WaitGroup
	for _, k := range w.workers[1:] {
		wait.Go(func() { f(k) })
	}
	f(w.workers[0])
	wait.Wait()
	return w.failed()
}

// failed returns the error of the earliest event. So any number of workers gives the same error.
func (w *World) failed() error {
	var first *Context
	for _, k := range w.workers {
		c := &k.context
		if c.err != nil && (first == nil || c.now.before(first.now) ||
			c.now == first.now && c.node < first.node) {
			first = c
		}
	}
	if first == nil {
		return nil
	}
	return fmt.Errorf("simulate: %w", first.err)
}
