package sim

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"hash"
	"slices"
)

// Counts say what a simulation did.
type Counts struct {
	Events  uint64 // events that happened
	Local   uint64 // messages to nodes of the sender's worker or process
	Remote  uint64 // messages to nodes of other workers or processes
	Windows uint64
	// LocalDelay and RemoteDelay are the sums of the delays of these messages.
	LocalDelay, RemoteDelay Time
}

// Counts returns what this process did.
func (w *World) Counts() Counts {
	all := Counts{Windows: w.windows}
	for _, k := range w.workers {
		all.Events += k.events
		all.Local += k.local
		all.Remote += k.remote
		all.LocalDelay += k.localDelay
		all.RemoteDelay += k.remoteDelay
	}
	return all
}

// Run runs the event engine until the end, until no event is left, or until a control stops it.
func (w *World) Run(ctx context.Context) error { return w.RunEach(ctx, Never, nil) }

// RunEach runs the event engine like Run. After each period of simulated time it also calls a
// function, for example to save a checkpoint. It calls the function between two windows.
func (w *World) RunEach(ctx context.Context, period Time, do func() error) error {
	if err := w.RunUntilQuiet(ctx, period, do); err != nil {
		return err
	}
	return w.Finish()
}

// RunUntilQuiet runs like RunEach, but does not run the controls that are due at the end. So the
// caller may still post events when no event is left.
func (w *World) RunUntilQuiet(ctx context.Context, period Time, do func() error) error {
	for {
		more, err := w.Step(ctx)
		if err != nil || !more {
			return err
		}
		if w.now.at/period > w.done/period {
			w.done = w.now.at
			if err := do(); err != nil {
				return err
			}
		}
	}
}

// Step runs the controls that are due, or one window. It returns false at the end.
func (w *World) Step(ctx context.Context) (more bool, err error) {
	if err := ctx.Err(); err != nil {
		return false, err
	}
	next, err := w.queueInFlight()
	if err != nil {
		return false, err
	}
	due := w.nextControl()
	if w.stopped || min(due, next.at) >= w.End || min(due, next.at) == Never {
		w.over = w.stopped || min(due, next.at) != Never
		return false, nil
	}
	if next.at == Never && w.onlyObserving() {
		return false, nil
	}
	if due <= next.at {
		w.now = timeAndRound{at: due}
		return true, w.runControls()
	}
	w.now = next
	until := timeAndRound{next.at, next.round + 1}
	if w.lookahead > 0 && !w.direct {
		until = timeAndRound{at: min(w.End, due)}
		if w.lookahead < until.at-next.at {
			// Windows of whole buckets (see eventQueue) are faster. A bucket is shorter than half
			// of the lookahead, so the window is not empty.
			until.at = (next.at + w.lookahead) >> w.shift << w.shift
		}
	}
	w.windows++
	w.happened = until
	return true, w.runWindow(until)
}

// onlyObserving reports whether no remaining control can post an event.
func (w *World) onlyObserving() bool {
	return !slices.ContainsFunc(w.controls, func(c *Scheduled) bool {
		_, observer := c.Control.(Observer)
		return !observer && c.next != Never
	})
}

// runWindow runs all events before a moment.
func (w *World) runWindow(until timeAndRound) error {
	due := 0
	for _, s := range w.shards {
		if s == nil {
			continue
		}
		if s.queue.firstMoment().before(until) {
			due++
		}
	}
	work := func(k *shardWorker) {
		for i, s := range w.shards {
			if s != nil && w.workerOf(i) == k.index && s.queue.firstMoment().before(until) &&
				k.context.err == nil {
				k.runShard(s, until)
			}
		}
	}
	if due == 1 { // starting goroutines would take longer
		for _, s := range w.shards {
			if s != nil && s.queue.firstMoment().before(until) {
				w.workers[w.workerOf(s.index)].runShard(s, until)
			}
		}
		return w.firstError()
	}
	return w.forEachWorker(work)
}

// queueInFlight puts all events that are on their way into the queues. It returns the moment of the
// next event of all processes.
func (w *World) queueInFlight() (timeAndRound, error) {
	if w.exchange != nil {
		return w.exchangeEvents()
	}
	posted := false
	for _, k := range w.workers {
		posted = posted || k.earliest.at != Never
		k.earliest = timeAndRound{at: Never}
	}
	if posted {
		if err := w.forEachWorker(func(k *shardWorker) {
			for i, s := range w.shards {
				if w.workerOf(i) == k.index {
					w.collectPosted(s)
				}
			}
		}); err != nil {
			return timeAndRound{}, err
		}
	}
	next := timeAndRound{at: Never}
	for _, s := range w.shards {
		if m := s.queue.firstMoment(); m.before(next) {
			next = m
		}
	}
	return next, nil
}

// errNoCycles is returned when the cycle engine is asked to run a network in several processes.
var errNoCycles = errors.New("the cycle engine needs the whole network in one process: " +
	"use simulation.endtime, or one process")

// Cycle runs the cycle engine. Each cycle first runs the controls that are due, and then gives each
// living node its turn. Time counts cycles.
func (w *World) Cycle(ctx context.Context, cycles int) error {
	if w.exchange != nil {
		return errNoCycles
	}
	w.direct = true
	for cycle := range cycles {
		if err := ctx.Err(); err != nil {
			return err
		}
		w.now = timeAndRound{at: Time(cycle)}
		if err := w.runControls(); err != nil {
			return err
		}
		if w.stopped {
			break
		}
		if err := w.visitNodes(); err != nil {
			return err
		}
	}
	w.now.at++
	return w.Finish()
}

// visitNodes gives each living node its turn in this cycle.
func (w *World) visitNodes() error {
	c := w.loop
	var visited []uint8
	for p := range w.protocols {
		if _, ok := w.protocols[p].(Cycled); !ok {
			continue
		}
		y := w.cycles[p]
		if w.now.at >= y.From && (y.Until == 0 || w.now.at < y.Until) &&
			(w.now.at-y.From)%max(y.Step, 1) == 0 {
			visited = append(visited, uint8(p))
		}
	}
	for i := range w.Size() {
		n := w.Living(i)
		for _, p := range visited {
			c.shard = w.shards[shardOf(n)]
			c.beginTurn(n, w.now)
			w.protocols[p].(Cycled).NextCycle(c)
			c.endTurn()
			w.workers[0].events++
		}
		if c.err != nil {
			return w.firstError()
		}
	}
	return nil
}

// Sum returns a checksum of each shard of this process, over columns and events. It does not depend
// on the number of processes.
func (w *World) Sum() (map[int][32]byte, error) {
	sums := map[int][32]byte{}
	for i, s := range w.shards {
		if s == nil {
			continue
		}
		w.collectPosted(s)
		b, err := w.EncodeShard(i)
		if err != nil {
			return nil, err
		}
		sums[i] = sha256.Sum256(b)
	}
	return sums, nil
}

// Digest returns one checksum of the whole world. All shards must be in this process.
func (w *World) Digest() ([32]byte, error) {
	sums, err := w.Sum()
	if err != nil {
		return [32]byte{}, err
	}
	return DigestOf(sums, w.now.at, w.joined), nil
}

// DigestOf combines the checksums of all shards.
func DigestOf(sums map[int][32]byte, now Time, joined int) (all [32]byte) {
	h := sha256.New()
	for i := range len(sums) {
		sum := sums[i]
		h.Write(sum[:])
	}
	number(h, uint64(now))
	number(h, uint64(joined))
	h.Sum(all[:0])
	return all
}

func number(h hash.Hash, n uint64) {
	var b [8]byte
	binary.LittleEndian.PutUint64(b[:], n)
	h.Write(b[:])
}
