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

// A sendThread sends a thread's share of a schedule. What is not atomic belongs to its goroutine until run has returned.
type sendThread struct {
	sender *Sender
	number int
	sink   Sink
	room   RoomWaiter // the sink, where it can tell
	pacer  pacer      // the sink, where it can
	ids    IDSource
	held   []io.Closer

	intended, send *handlers.Channel // no-ops where nothing is logged

	stopped atomic.Bool
	sent    atomic.Uint64

	scheduled, skipped, unsent uint64
	late                       Lateness
	blockedSends, blocked      uint64 // offers, counter steps
	lag                        *hdrhistogram.Histogram
	firstID, lastSent          uint64

	// Why the thread is behind its schedule, as long as it is: of tuples that were due while it caught up, too.
	cause *uint64 // a count of late, nil while it is not behind

	spare  []uint64 // ids that were not sent after all: nothing is missing between those that are
	batch  []Tuple
	due    []uint64 // of the batch, counter
	sentAt []uint64 // as a pacer noted
	place  int      // in the tuples
}

func newSendThread(s *Sender, number int) (*sendThread, error) {
	t := &sendThread{sender: s, number: number, lag: newLatencies()}
	// Threads begin at different tuples, so that they do not send copies of each other.
	t.place = s.o.Tuples.Len() / s.o.Threads * number
	if s.o.Log != nil {
		t.intended, t.send = t.channel("intended"), t.channel("send")
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
	if p, ok := t.sink.(pacer); ok && p.paces() {
		if _, real := s.clock.(*counterClock); real {
			t.pacer = p // it knows no other clock
		}
	}
	return t, nil
}

// channel opens one of the thread's channels. A run goes on without it.
func (t *sendThread) channel(point string) *handlers.Channel {
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

// run sends until the schedule ends, says the end and closes the sink.
func (t *sendThread) run(start uint64) error {
	release := sharpTimers()
	defer release()
	defer t.release()
	if t.sender.o.Begin != nil {
		t.sender.o.Begin(t.number)
	}
	var err error
	if t.sender.o.Schedule != nil {
		err = t.follow(start)
	} else {
		err = t.flatOut(start)
	}
	if closing := t.sink.Close(t.end()); err == nil && closing != nil {
		err = fmt.Errorf("send: thread %d: end: %w", t.number, closing)
	}
	return err
}

// maxCredit_s is the longest pause of a thread that is made good at once, times CatchUp: a thread that did not run for a second comes back
// to a second's tuples, and must not throw them all at the engine.
const maxCredit_s = 1e-3

// follow sends each tuple when it is due.
//
// There are two times. One is the counter's. The other, allowed, follows it, and is behind only when the thread is late: then it goes at most
// CatchUp times as fast. A tuple may be sent once allowed has reached its due time.
func (t *sendThread) follow(start uint64) error {
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
			t.unsent++ // the one in hand; what the schedule would still have held was never due
			return nil
		}
		now := clock.Now()
		elapsed := now - looked
		if elapsed > lateAfter {
			t.blame(&t.late.Stalled) // a look at the clock takes nanoseconds: something else took the processor
		}
		looked = now
		allowed = min(now, allowed+uint64(o.CatchUp*float64(min(elapsed, maxCredit))))
		if due > allowed {
			if due > now {
				t.cause = nil // nothing else waits to be sent
				if t.pacer != nil && due-now < ahead {
					if due, more, err = t.pace(now+ahead, due, next, lateAfter, deadline); err != nil {
						return err
					}
					looked = clock.Now()
					allowed = looked
					continue
				}
				if t.pacer != nil {
					clock.Wait(due - ahead/2)
					if looked = clock.Now(); looked > due-ahead/2+lateAfter {
						t.blame(&t.late.Stalled) // woken up late
					}
					allowed = looked
					continue
				}
				clock.Wait(due)
				looked = clock.Now()
				if looked > due+lateAfter {
					t.blame(&t.late.Stalled) // woken up late
				}
				allowed = min(looked, due+maxCredit)
			}
			continue
		}
		t.batch, t.due = t.batch[:0], t.due[:0]
		for more && due <= allowed && len(t.batch) < o.Batch {
			if now > due+giveUp {
				if t.skipped++; t.skipped == 1 { // the rest is counted in the end: there may be millions
					t.sender.marks.make(Behind, 1, "thread %d is %s late and sends no tuple that is later: the rate, %s, is beyond what this machine can send or the engine takes", t.number, o.GiveUp, o.Schedule)
				}
			} else if err := t.take(due); err != nil {
				t.unsent += uint64(len(t.batch)) + 1
				return err
			}
			due, more = next()
		}
		if len(t.batch) == 0 {
			continue
		}
		if err := t.offer(lateAfter, deadline); err != nil {
			if more {
				t.unsent++ // the one in hand
			}
			return err
		}
		looked = clock.Now()
		// The time in offer is the thread's own work, or was booked as blocked: it earns credit like any other.
		allowed = min(looked, allowed+uint64(o.CatchUp*float64(min(looked-now, maxCredit))))
	}
	return nil
}

// ahead_s is how far ahead a pacer is given tuples, and maxAhead how many: making its messages must not take as long as a tuple may be late.
const (
	ahead_s  = 500e-6
	maxAhead = 64
)

// pace has the pacer send what is due until a time. It returns the first tuple that is not.
func (t *sendThread) pace(until, due uint64, next func() (uint64, bool), lateAfter, deadline uint64) (uint64, bool, error) {
	t.batch, t.due = t.batch[:0], t.due[:0]
	more := true
	for more && due < until && len(t.batch) < maxAhead {
		if err := t.take(due); err != nil {
			t.unsent += uint64(len(t.batch)) + 1
			return due, more, err
		}
		due, more = next()
	}
	if cap(t.sentAt) < maxAhead {
		t.sentAt = make([]uint64, maxAhead)
	}
	taken, err := t.pacer.sendAt(t.batch, t.due, t.sentAt[:len(t.batch)])
	if err == nil {
		nsPerCycle := 1e9 / t.sender.clock.Frequency_hz()
		for i, at := range t.sentAt[:taken] {
			if at-t.lastSent > lateAfter && at > t.due[i]+lateAfter {
				t.blame(&t.late.Stalled) // sending one takes less
			}
			t.send.LogAt(at, t.batch[i].ID)
			t.book(at, t.due[i], lateAfter, nsPerCycle)
			t.lastSent = at
		}
		t.sent.Add(uint64(taken))
		if taken == len(t.batch) {
			return due, more, nil
		}
		t.batch, t.due = t.batch[taken:], t.due[taken:]
		err = t.offer(lateAfter, deadline)
	} else {
		err = fmt.Errorf("send: thread %d: %w", t.number, err)
		t.giveBack(t.batch)
	}
	if err != nil && more {
		t.unsent++
	}
	return due, more, err
}

// take adds the next tuple to the batch.
func (t *sendThread) take(due uint64) error {
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

// offer hands the batch to the sink until all of it is taken. A sink that takes nothing until the deadline ends the run.
func (t *sendThread) offer(lateAfter, deadline uint64) error {
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
			return fmt.Errorf("send: thread %d: sink took %d of %d tuples: it must return how many it took", t.number, taken, len(rest))
		}
		if taken > 0 && refusedAt != 0 {
			t.blocked += now - refusedAt
			t.cause = &t.late.Blocked
			if said {
				t.sender.marks.say(Blocked, "thread %d: the engine takes tuples again, after %.3f s", t.number, float64(now-refusedAt)*nsPerCycle/1e9)
			}
			refusedAt, said = 0, false
			pause = uint64(clock.Frequency_hz() * 2e-6)
		}
		for i := range taken {
			t.send.LogAt(now, rest[i].ID)
			if t.sender.o.Schedule != nil {
				t.book(now, due[i], lateAfter, nsPerCycle)
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
			t.sender.marks.make(Blocked, 1, "thread %d: the engine has taken nothing for %.0f ms: it is slower than the rate, or the network is cut", t.number, waited/1e6)
		}
		if now > deadline || t.stopped.Load() {
			t.blocked += now - refusedAt
			t.cause = &t.late.Blocked
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

// giveBack counts tuples as unsent and keeps their ids for the next ones.
func (t *sendThread) giveBack(rest []Tuple) {
	t.unsent += uint64(len(rest))
	var ids []uint64
	for _, tuple := range rest {
		ids = append(ids, tuple.ID)
	}
	t.spare = append(ids, t.spare...)
}

// longestRoomWait is how soon a thread that is refused looks at the clock.
const longestRoomWait = 5 * time.Millisecond

// blockedNotice_ns is how long an engine may take nothing before that is said.
const blockedNotice_ns = 100e6

// book counts how late a tuple was sent, and why.
func (t *sendThread) book(now, due, lateAfter uint64, nsPerCycle float64) {
	if now < due {
		now = due // a wait may end a step early
	}
	record(t.lag, int64(float64(now-due)*nsPerCycle))
	if now-due <= lateAfter {
		return
	}
	t.late.Late++
	if t.cause == nil {
		t.cause = &t.late.Busy
	}
	*t.cause++
}

// blame notes why the thread is behind from here on, if it was not before.
func (t *sendThread) blame(cause *uint64) {
	if t.cause == nil {
		t.cause = cause
	}
}

// flatOut sends as fast as the sink takes.
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
		n := uint64(o.Batch)
		if o.Limit > 0 {
			n = min(n, o.Limit-t.sent.Load())
		}
		if now >= end || n == 0 {
			return nil
		}
		t.batch, t.due = t.batch[:0], t.due[:0]
		for range n {
			if err := t.take(now); err != nil {
				t.scheduled += uint64(len(t.batch))
				t.unsent += uint64(len(t.batch))
				return err
			}
		}
		t.scheduled += n
		if err := t.offer(0, deadline); err != nil {
			return err
		}
		if t.unsent > 0 {
			return nil
		}
	}
	return nil
}
