package generator

import (
	"fmt"
	"io"
	"math"
	"sync/atomic"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/cloudprofiler/cloudprofiler/handlers"
)

// A sendThread sends a thread's share of a schedule. Its fields that are not atomic belong to its
// goroutine until run has returned.
type sendThread struct {
	sender *Sender
	number int
	sink   Sink
	room   RoomWaiter // the sink, if it is a RoomWaiter; nil if not
	pacer  pacer      // the sink, if it is a pacer; nil if not
	ids    IDSource
	held   []io.Closer

	intended, send *handlers.Channel // no-ops if nothing is logged

	turns priorityTurns

	stopped atomic.Bool
	sent    atomic.Uint64

	scheduled, skipped, unsent uint64
	late                       Lateness
	blockedSends, blocked      uint64 // number of refused offers; counter steps of waiting
	lag                        *hdrhistogram.Histogram
	notLogged                  uint64 // number of events that found a full ring
	firstID, lastSent          uint64

	// cause says why the thread is behind its schedule: it points to the field of the struct late
	// that counts the tuples with that cause. It does not change while the thread catches up. It is
	// nil while the thread is not behind.
	cause *uint64
	over  uint64 // counter when the cause ended; tuples due later count as CatchingUp

	spare []uint64 // ids of tuples that were not sent, used again so that no id is missing
	batch []Tuple
	due   []uint64 // counter at which each tuple of the batch is due
	noted []pacingNote
	place int // index of the next tuple in Tuples
}

func newSendThread(s *Sender, number int) (*sendThread, error) {
	t := &sendThread{
		sender: s,
		number: number,
		lag:    newLatencies(),
		turns:  priorityTurns{wanted: s.o.Realtime, hz: s.clock.Frequency_hz()},
	}
	// Threads begin at different tuples, so that they do not send the same tuple at the same time.
	t.place = s.o.Tuples.Len() / s.o.Threads * number
	if s.o.Log != nil {
		t.intended, t.send = t.openChannel("intended"), t.openChannel("send")
	}
	var err error
	if s.o.IDs != nil {
		t.ids, err = s.o.IDs(number)
	} else {
		dir := ""
		if s.o.Log != nil {
			dir = s.o.Log.Dir
		}
		var ids *handlers.IDs
		if ids, err = handlers.OpenIDs(dir, handlers.AnyInstance); err == nil {
			t.ids = ids
			t.held = append(t.held, ids)
		}
	}
	if err == nil {
		t.sink, err = s.o.Connect(number)
	}
	if err != nil {
		t.release()
		return nil, err
	}
	t.room, _ = t.sink.(RoomWaiter)
	if p, ok := t.sink.(pacer); ok && p.canPace(s.clock) {
		t.pacer = p
	}
	return t, nil
}

// openChannel opens one of the thread's channels. If that fails, the run continues without the
// channel.
func (t *sendThread) openChannel(point string) *handlers.Channel {
	c, err := handlers.Open(fmt.Sprintf("generator#%d/%s", t.number, point), *t.sender.o.Log)
	if err != nil {
		t.sender.drops = err.Error()
		return c
	}
	t.held = append(t.held, c)
	return c
}

func (t *sendThread) release() {
	for _, h := range t.held {
		h.Close()
	}
	t.held = nil
}

func (t *sendThread) end() End { return End{First: t.firstID, Sent: t.sent.Load()} }

// run sends tuples until the schedule ends. Then it sends the end and closes the sink.
func (t *sendThread) run(start uint64) error {
	release := sharpTimers()
	defer t.release()
	defer func() { t.notLogged = t.intended.Dropped() + t.send.Dropped() }()
	err := t.sender.o.favourThread(t.number)
	switch {
	case err != nil:
		err = fmt.Errorf("send: thread %d: %w", t.number, err)
	case t.sender.o.Schedule != nil:
		err = t.followSchedule(start)
	default:
		err = t.flatOut(start)
	}
	if len(t.sender.o.Cores) == 0 && !t.sender.o.Realtime {
		release() // if not released, the thread ends with this goroutine
	}
	if closing := t.sink.Close(t.end()); err == nil && closing != nil {
		err = fmt.Errorf("send: thread %d: end: %w", t.number, closing)
	}
	return err
}

// maxCredit_s limits how far one pause can advance the time "allowed" in followSchedule. A thread
// that did not run for a second has to send the tuples of a second, and must not send all of them
// to the engine at once.
const maxCredit_s = 1e-3

// followSchedule sends each tuple when it is due.
//
// followSchedule uses two times. One is the counter. The other has the name "allowed", and is
// behind the counter only when the thread is late. While the thread is late, "allowed" advances at
// most CatchUp times as fast as the counter. A tuple may be sent once "allowed" has reached the
// tuple's due time.
func (t *sendThread) followSchedule(start uint64) error {
	o, clock := &t.sender.o, t.sender.clock
	hz := clock.Frequency_hz()
	cyclesPerNS := hz / 1e9
	lateAfter := uint64(float64(o.LateAfter) * cyclesPerNS)
	giveUp := uint64(float64(o.GiveUp) * cyclesPerNS)
	maxCredit := uint64(maxCredit_s * hz)
	deadline := start + uint64((float64(o.Schedule.Duration())+float64(o.GiveUp))*cyclesPerNS)

	times := o.Schedule.Thread(t.number, o.Threads)
	next := func() (uint64, bool) {
		ns, ok := times()
		if ok {
			t.scheduled++
		}
		return start + uint64(math.Round(ns*cyclesPerNS)), ok
	}
	due, more := next()
	ahead := uint64(ahead_s * hz)
	var err error
	looked := clock.Now()
	allowed := looked
	for more {
		if t.stopped.Load() {
			t.unsent++ // the tuple that waits; later ones were not due yet
			return nil
		}
		t.turns.beginTurn(looked)
		now := clock.Now()
		elapsed := now - looked
		if elapsed > lateAfter {
			// Reading the clock takes nanoseconds, so something else took the processor.
			t.recordCause(&t.late.Stalled, now)
		}
		looked = now
		allowed = min(now, allowed+uint64(o.CatchUp*float64(min(elapsed, maxCredit))))
		if due > allowed {
			if due > now {
				t.cause = nil // no other tuple waits to be sent
				if t.pacer != nil && due-now < ahead {
					due, more, err = t.paceTuples(now, now+ahead, due, next, lateAfter, deadline)
					if err != nil {
						return err
					}
					looked = clock.Now()
					credit := uint64(o.CatchUp * float64(min(looked-now, maxCredit)))
					allowed = min(looked, now+credit)
					continue
				}
				until := due
				if t.pacer != nil {
					until -= ahead / 2 // the pacer waits for the rest
				}
				looked = t.awaitCounter(until, lateAfter)
				allowed = min(looked, until+maxCredit)
			}
			continue
		}
		t.batch, t.due = t.batch[:0], t.due[:0]
		for more && due <= allowed && len(t.batch) < o.Batch {
			if now > due+giveUp {
				t.skipTuple()
			} else if err := t.batchNext(due); err != nil {
				t.unsent += uint64(len(t.batch)) + 1
				return err
			}
			due, more = next()
		}
		if len(t.batch) == 0 {
			continue
		}
		if err := t.offerBatch(lateAfter, deadline); err != nil {
			if more {
				t.unsent++ // the next tuple, which is not in the batch
			}
			return err
		}
		looked = clock.Now()
		// While the thread took and offered these tuples, the time "allowed" did not change. Let it
		// advance for that time, too, with the same limits as above.
		allowed = min(looked, allowed+uint64(o.CatchUp*float64(min(looked-now, maxCredit))))
	}
	return nil
}

// awaitCounter waits until the counter has reached a given reading, and returns the reading at
// which the thread woke.
func (t *sendThread) awaitCounter(until, lateAfter uint64) uint64 {
	t.sender.clock.Wait(until)
	woke := t.sender.clock.Now()
	if woke > until+lateAfter {
		t.recordCause(&t.late.Stalled, woke)
	}
	return woke
}

// skipTuple counts a tuple that is too late to be sent.
func (t *sendThread) skipTuple() {
	if t.skipped++; t.skipped == 1 { // there may be millions: result counts the rest
		t.sender.marks.addMark(Behind, 1, "thread %d is %s late and sends no tuple that is later: "+
			"this machine cannot send, or the engine not take, the rate of %s",
			t.number, t.sender.o.GiveUp, t.sender.o.Schedule)
	}
}

// ahead_s and maxAhead limit which tuples a pacer gets in one call: only tuples that are due within
// ahead_s, and at most maxAhead of them. Making one message and counting its lateness takes 0.1 to
// 0.2 µs. maxAhead is so small that making maxAhead messages takes less time than the default of
// SenderOptions.LateAfter.
const (
	ahead_s  = 500e-6
	maxAhead = 16
)

// paceTuples gives the pacer the tuples that are due before a given time (until). It returns the
// due time of the first tuple that remains.
func (t *sendThread) paceTuples(
	now, until, due uint64, next func() (uint64, bool), lateAfter, deadline uint64,
) (uint64, bool, error) {
	t.batch, t.due = t.batch[:0], t.due[:0]
	more := true
	for more && due < until && len(t.batch) < maxAhead {
		if err := t.batchNext(due); err != nil {
			t.unsent += uint64(len(t.batch)) + 1
			return due, more, err
		}
		due, more = next()
	}
	if t.noted == nil {
		t.noted = make([]pacingNote, maxAhead+1)
	}
	hz := t.sender.clock.Frequency_hz()
	taken, err := t.pacer.sendAt(t.batch, t.due, t.noted[:len(t.batch)+1], lateAfter, hz)
	if err == nil {
		for i, n := range t.noted[:taken] {
			if i == 0 && n.before&waitedBit == 0 && n.sent-now > lateAfter {
				n.before |= pausedBit // making messages is faster than that: the thread did not run
			}
			t.learnCause(n, n.sent > t.due[i]+lateAfter)
			t.send.LogAt(n.sent, t.batch[i].ID)
			t.countDelay(n.sent, t.due[i], lateAfter, 1e9/hz)
			t.lastSent = n.sent
		}
		t.sent.Add(uint64(taken))
		if taken == len(t.batch) {
			t.learnCause(t.noted[taken], false)
			return due, more, nil
		}
		t.batch, t.due = t.batch[taken:], t.due[taken:]
		err = t.offerBatch(lateAfter, deadline)
	} else {
		err = fmt.Errorf("send: thread %d: %w", t.number, err)
		t.giveBack(t.batch)
	}
	if err != nil && more {
		t.unsent++
	}
	return due, more, err
}

// learnCause finds out from a pacer's note why the thread is behind, or that it is no longer
// behind. If the pacer had to wait for the tuple's time, and the tuple was not late, then earlier
// pauses do not matter.
func (t *sendThread) learnCause(n pacingNote, late bool) {
	if n.before&waitedBit != 0 {
		t.cause = nil
	}
	switch behind := late || n.before&waitedBit == 0; {
	case behind && n.before&pausedBit != 0:
		t.recordCause(&t.late.Stalled, n.sent)
	case behind && n.before&slowBit != 0:
		t.recordCause(&t.late.Busy, n.sent)
	}
}

// batchNext adds the next tuple to the batch.
func (t *sendThread) batchNext(due uint64) error {
	id, ok := uint64(0), len(t.spare) > 0
	if ok {
		id, t.spare = t.spare[0], t.spare[1:]
	} else {
		id, ok = t.ids.Next()
	}
	if !ok {
		return fmt.Errorf("send: thread %d: no more ids can be made", t.number)
	}
	if t.sent.Load() == 0 && len(t.batch) == 0 {
		t.firstID = id
	}
	t.batch = append(t.batch, Tuple{id, t.sender.o.Tuples.body(t.place)})
	t.due = append(t.due, due)
	if t.place++; t.place == t.sender.o.Tuples.Len() {
		t.place = 0
	}
	t.intended.LogAt(due, id)
	if t.sender.o.due != nil {
		t.sender.o.due(t.number, id, due)
	}
	return nil
}

// offerBatch hands the batch to the sink until the sink has taken all of it. Tuples that the sink
// has not taken at the deadline are given up.
func (t *sendThread) offerBatch(lateAfter, deadline uint64) error {
	clock := t.sender.clock
	nsPerCycle := 1e9 / clock.Frequency_hz()
	rest, due := t.batch, t.due
	refusedAt, said := uint64(0), false
	pause := uint64(clock.Frequency_hz() * 2e-6)
	for {
		now := clock.Now()
		taken, err := t.sink.Send(rest)
		if err != nil {
			t.giveBack(rest)
			return fmt.Errorf("send: thread %d: %w", t.number, err)
		}
		if taken < 0 || taken > len(rest) {
			t.unsent += uint64(len(rest))
			return fmt.Errorf("send: thread %d: sink took %d of %d tuples: "+
				"it must return how many it took", t.number, taken, len(rest))
		}
		if taken > 0 && refusedAt != 0 {
			t.blocked += now - refusedAt
			t.cause, t.over = &t.late.Blocked, now
			if said {
				refused_s := float64(now-refusedAt) * nsPerCycle / 1e9
				t.sender.marks.sendNotice(Blocked,
					"thread %d: the engine takes tuples again, after %.3f s", t.number, refused_s)
			}
			refusedAt, said = 0, false
			pause = uint64(clock.Frequency_hz() * 2e-6)
		}
		for i := range taken {
			t.send.LogAt(now, rest[i].ID)
			if t.sender.o.Schedule != nil {
				t.countDelay(now, due[i], lateAfter, nsPerCycle)
			}
		}
		if taken > 0 {
			t.sent.Add(uint64(taken))
			t.lastSent = now
		}
		rest, due = rest[taken:], due[taken:]
		if len(rest) == 0 {
			return nil
		}
		if refusedAt == 0 {
			refusedAt = now
			t.blockedSends++
		}
		if waited := float64(now-refusedAt) * nsPerCycle; waited > blockedNotice_ns && !said {
			said = true
			t.sender.marks.addMark(Blocked, 1,
				"thread %d: the engine has taken nothing for %.0f ms: "+
					"it is slower than the rate, or the network is cut", t.number, waited/1e6)
		}
		if now > deadline || t.stopped.Load() {
			t.blocked += now - refusedAt
			t.giveBack(rest)
			return nil
		}
		if t.room != nil {
			t.room.WaitRoom(longestRoomWait)
			continue
		}
		clock.Wait(now + pause)
		pause = min(pause*2, uint64(clock.Frequency_hz()*500e-6))
	}
}

// giveBack counts tuples as unsent and keeps their ids for the next tuples.
func (t *sendThread) giveBack(rest []Tuple) {
	t.unsent += uint64(len(rest))
	var ids []uint64
	for _, tuple := range rest {
		ids = append(ids, tuple.ID)
	}
	t.spare = append(ids, t.spare...)
}

// longestRoomWait is the longest time for which a refused thread does not look at the clock.
const longestRoomWait = 5 * time.Millisecond

// blockedNotice_ns is how long an engine may take nothing before a notice reports that.
const blockedNotice_ns = 100e6

// countDelay counts how late a tuple was sent, and why.
func (t *sendThread) countDelay(now, due, lateAfter uint64, nsPerCycle float64) {
	if now < due {
		now = due // a wait may end a step early
	}
	record(t.lag, int64(float64(now-due)*nsPerCycle))
	if now-due <= lateAfter {
		return
	}
	t.late.Late++
	if t.cause == nil {
		t.cause, t.over = &t.late.Busy, math.MaxUint64 // the cause has not ended
	}
	*t.cause++
	if due > t.over {
		t.late.CatchingUp++
	}
}

// recordCause records the cause that put the thread behind, and the counter when that cause ended.
// If the thread already has a cause, recordCause does nothing.
func (t *sendThread) recordCause(cause *uint64, over uint64) {
	if t.cause == nil {
		t.cause, t.over = cause, over
	}
}

// flatOut sends as fast as the sink takes tuples.
func (t *sendThread) flatOut(start uint64) error {
	o, clock := &t.sender.o, t.sender.clock
	hz := clock.Frequency_hz()
	end := start + uint64(o.FlatOut.Seconds()*hz)
	deadline := end + uint64(o.GiveUp.Seconds()*hz)
	for now := clock.Now(); now < start; now = clock.Now() {
		clock.Wait(start)
	}
	for !t.stopped.Load() {
		now := clock.Now()
		t.turns.beginTurn(now)
		n := uint64(o.Batch)
		if o.Limit > 0 {
			n = min(n, o.Limit-t.sent.Load())
		}
		if now >= end || n == 0 {
			return nil
		}
		t.batch, t.due = t.batch[:0], t.due[:0]
		for range n {
			if err := t.batchNext(now); err != nil {
				t.scheduled += uint64(len(t.batch))
				t.unsent += uint64(len(t.batch))
				return err
			}
		}
		t.scheduled += n
		if err := t.offerBatch(0, deadline); err != nil {
			return err
		}
		if t.unsent > 0 {
			return nil
		}
	}
	return nil
}
