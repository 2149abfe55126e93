package sim

import (
	"fmt"
	"math/bits"
	"sync"
)

// shardWorker works on some of the shards.
type shardWorker struct {
	w       *World
	index   int
	context Context

	// out has, for each shard, events that were posted in this window. The shard's worker collects
	// them in the next window.
	out      []postedEvents
	earliest timeAndRound // of the events in out

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

// postedEvents has posted events, and the values that they carry.
type postedEvents struct {
	events []Event
	values []any
}

func (k *shardWorker) post(shard int, e Event, value any) {
	box := &k.out[shard]
	if e.Kind&bulkyBit != 0 {
		e.Word = uint64(len(box.values))
		box.values = append(box.values, value)
	}
	box.events = append(box.events, e)
	if m := (timeAndRound{e.At, e.round}); m.before(k.earliest) {
		k.earliest = m
	}
}

// countSent counts a message that takes the given time.
func (k *shardWorker) countSent(to Node, d Time) {
	owner := k.w.owners[shardOf(to)]
	if owner == k.w.owners[k.context.shard.index] {
		k.local++
		k.localDelay += d
	} else {
		k.remote++
		k.remoteDelay += d
	}
}

// collectPosted puts all events that workers have posted for a shard into the shard's queue.
func (w *World) collectPosted(s *nodeShard) {
	for _, k := range w.workers {
		box := &k.out[s.index]
		if len(box.events) == 0 {
			continue
		}
		for _, e := range box.events {
			if e.Kind&bulkyBit != 0 {
				e.Word = s.keepValue(box.values[e.Word])
			}
			s.queue.push(e)
		}
		box.events = box.events[:0]
		clear(box.values)
		box.values = box.values[:0]
	}
}

// runShard runs the events of a shard that come before a given moment. Only the order of the events
// of one node matters. So the worker handles one node after the other, which also uses the cache
// well.
func (k *shardWorker) runShard(s *nodeShard, until timeAndRound) {
	c := &k.context
	c.shard, c.until = s, until
	k.batch = s.queue.takeUntil(k.batch[:0], until)
	s.queue.advanceTo(min(until.at, k.w.End))
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
	k.readAhead(s)
	before := k.events
	for word := range k.due {
		for k.due[word] != 0 && c.err == nil {
			n := word*64 + bits.TrailingZeros64(k.due[word])
			k.due[word] &= k.due[word] - 1
			k.turn = k.turn[:0]
			for i := k.head[n]; i >= 0; i = k.next[i] {
				k.insertEvent(k.batch[i])
			}
			k.runNode(s)
		}
		k.due[word] = 0
	}
	s.events += k.events - before
	c.until = timeAndRound{}
}

// readAhead reads what the events of a batch will need. These reads do not depend on each other, so
// the CPU waits for many of them at the same time.
func (k *shardWorker) readAhead(s *nodeShard) {
	turns, sum := k.w.turns.shards[s.index], uint64(0)
	for i := range k.batch {
		e := &k.batch[i]
		sum += turns[inShard(e.To)].drawn
		if e.Kind&bulkyBit != 0 && s.values[e.Word] != nil {
			sum++
		}
		if p := k.w.warmers[e.Protocol]; p != nil {
			sum += p.Warm(e)
		}
	}
	k.warmed = sum
}

// insertEvent puts an event into the sorted events of a node.
func (k *shardWorker) insertEvent(e Event) {
	k.turn = append(k.turn, e)
	for i := len(k.turn) - 1; i > 0 && k.turn[i].comesBefore(&k.turn[i-1]); i-- {
		k.turn[i], k.turn[i-1] = k.turn[i-1], k.turn[i]
	}
}

// runNode runs the events of one node. An event may add later events of the node.
func (k *shardWorker) runNode(s *nodeShard) {
	c, w := &k.context, k.w
	for i := 0; i < len(k.turn) && c.err == nil; i++ {
		k.event = k.turn[i] // a local variable would be allocated
		e := &k.event
		if !w.Up(e.To) {
			if e.Kind&bulkyBit != 0 {
				s.takeValue(e.Word)
			}
			continue
		}
		k.events++
		c.beginTurn(e.To, timeAndRound{e.At, e.round})
		if e.Kind == TimerKind {
			w.runCycle(c, e)
		} else {
			w.protocols[e.Protocol].Receive(c, e)
			if e.Kind&bulkyBit != 0 {
				s.takeValue(e.Word)
			}
		}
		c.endTurn()
	}
}

// runCycle gives a protocol its turn and posts the next one.
func (w *World) runCycle(c *Context, e *Event) {
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

// forEachWorker calls f for each worker at the same time, and returns the first error in the order
// of the workers.
func (w *World) forEachWorker(f func(*shardWorker)) error {
	if len(w.workers) == 1 || w.direct || w.exchange != nil {
		f(w.workers[0])
		return w.firstError()
	}
	var wait sync.WaitGroup
	for _, k := range w.workers[1:] {
		wait.Go(func() { f(k) })
	}
	f(w.workers[0])
	wait.Wait()
	return w.firstError()
}

// firstError returns the error of the earliest event. So any number of workers gives the same
// error.
func (w *World) firstError() error {
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
