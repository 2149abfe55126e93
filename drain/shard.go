package drain

import (
	"fmt"
	"time"

	"github.com/cloudprofiler/cloudprofiler/channel"
	"github.com/cloudprofiler/cloudprofiler/logstore"
	"github.com/cloudprofiler/cloudprofiler/ring"
)

// place is where a shard's draining stands. Numbers are of the ring: head and tail in records.
type place struct {
	head, drops, journal uint64 // that are safe in the log, as the ring has been told

	tail       uint64        // as seen at the last look
	looked     time.Duration // when that was
	since      time.Duration // nothing has waited longer
	dropped    uint64        // as seen when ranges of drops were taken last
	accounted  uint64        // dropped events that are in the log
	told       uint64        // bit k: the program was told that drops − k ranges are safe, at some time
	leftAt     uint64        // place of a range that was left, and is over when the tail has passed it; noPlace: none
	unfinished bool          // a record is reserved and not written

	// Rows that were not stored because a limit was reached, and that the log does not account for yet.
	skipped, skippedAt uint64
	skippedSince       time.Duration

	rate    float64 // of records, in a second: see pace
	shown   shown   // as in the stats
	lastGen uint64  // the last generation that the log has
	lastAt  uint64  // the last place of a range of drops, plus 1, that it had then
}

// noPlace is past all records.
const noPlace = 1<<64 - 1

// shard does at one shard what the phase asks for.
func (s *source) shard(w *worker, i int, now phase) error {
	p := &s.places[i]
	state, err := s.ring.State(i)
	if err != nil {
		return err
	}
	came := state.Tail - p.tail
	err = s.take(w, i, state, now)
	if err == nil && s.header.Policy != channel.Overwrite {
		s.nextLook = min(s.nextLook, w.now+p.pace(state, w.now, s.header.Records))
	}
	if state.Flags&ring.FlagClosed != 0 && s.alive {
		s.nextTick = w.now // its owner is about to let go of it
		s.nextLook = min(s.nextLook, w.now+time.Millisecond)
	}
	p.tail, p.looked = state.Tail, w.now
	if came > 0 {
		w.moved = w.now
	}
	if next := (shown{state.Tail - p.head, state.Dropped, state.Flags}); came > 0 || next != p.shown {
		p.shown = next
		s.count(func(c *RingStats) {
			c.Events += came / s.per
			if c.shards == nil {
				c.shards = make([]shown, len(s.places))
			}
			c.shards[i] = next
		})
	}
	return err // what is shown of a ring moves on while its log cannot be written
}

// take writes what a shard has, as far as it is due, into the log.
func (s *source) take(w *worker, i int, state ring.State, now phase) error {
	p := &s.places[i]
	if state.Dropped != p.dropped || state.Tail > p.leftAt || now == dead {
		if err := s.takeDrops(w, i, state, now); err != nil {
			return err
		}
	}
	if s.header.Policy == channel.Overwrite { // which is left until somebody wants it
		return nil
	}
	return s.takeRecords(w, i, state.Tail, now)
}

// fastest is more records than a core logs in a second.
const fastest = 1e8

// pace says after what time to look again at a shard, so that no more than a quarter of it has filled by then; it is nothing where
// that much waits.
//
// Programs log in bursts. So the rate that counts is the highest of late: it is halved at each look at which the program was
// slower, and the time to the next look doubles. How fast a program would be that waited for room, nobody knows.
func (p *place) pace(state ring.State, now time.Duration, records uint64) time.Duration {
	const longest = time.Hour
	came := state.Tail - p.tail
	p.rate /= 2
	switch over := now - p.looked; {
	case state.Tail-state.Head >= records:
		p.rate = fastest
	case over > 0:
		p.rate = max(p.rate, float64(came)/over.Seconds())
	}
	waiting := state.Tail - min(p.head, state.Tail)
	switch {
	case p.unfinished:
		return time.Millisecond // it waits for a writer
	case waiting >= records/4:
		return 0
	}
	seconds := float64(records/4-waiting) / max(p.rate, 1) / 2
	// Halving alone would look ever more often as the quarter comes near. Where there is time until the ring is full, a look can wait.
	seconds = max(seconds, min(early.Seconds(), float64(records-waiting)/max(p.rate, 1)/8))
	return time.Duration(min(seconds*1e9, float64(longest)))
}

// hold is how long events may gather.
func (s *source) hold() time.Duration {
	if s.settings.Kind == channel.Identity {
		return identityHold
	}
	return blockHold
}

// takeRecords writes what waits in a shard below a tail, if it is due.
func (s *source) takeRecords(w *worker, i int, tail uint64, now phase) error {
	p := &s.places[i]
	// The next look may come a poll later than now.
	due := now != live || w.now+s.d.o.Poll-p.since >= s.hold()
	p.unfinished = false
	end := tail
	if now == flush {
		end = min(tail, s.until[i])
	}
	for p.head < end && (due || tail-p.head >= s.enough) {
		if s.budget <= 0 {
			s.nextLook = w.now
			s.more = now != live
			break
		}
		most := min(uint64(len(w.records)), end-p.head, s.batch())
		first, n, unfinished, err := s.ring.Copy(i, p.head, w.records[:most])
		if err != nil {
			return err
		}
		if first != p.head {
			return fmt.Errorf("drain ring %q: shard %d gave record %d for %d: %w", s.ring.Path(), i, first, p.head, ring.ErrDamaged)
		}
		s.budget -= max(n, blockRecords)
		rows := uint64(n) / s.per
		if rows == 0 {
			if now != dead {
				// A writer is at it.
				p.unfinished = unfinished
				break
			}
			if err := s.takeHole(w, i, tail); err != nil {
				return err
			}
			continue
		}
		kept := rows
		if s.d.limits.reached(w.now) == nil { // else nothing is kept, and not even what is over the rate is told one by one
			kept = s.rate.take(w.now, rows)
		}
		if kept > 0 {
			if err := s.store(w, i, kept); err != nil {
				return err
			}
			p.head += kept * s.per
			if err := s.release(i); err != nil {
				return err
			}
		}
		if kept < rows {
			if err := s.takeOverRate(w, i, kept, rows); err != nil {
				return err
			}
		}
	}
	if now != live || p.skipped > 0 && w.now-p.skippedSince >= blockHold {
		if err := s.takeSkipped(w, i); err != nil {
			return err
		}
	}
	switch {
	case p.head == tail:
		p.since = w.now
	case p.head >= p.tail: // what waits came after the last look
		p.since = max(p.since, p.looked)
	}
	return nil
}

// batch is how many records are taken at once, whole pairs: of what the look has left.
func (s *source) batch() uint64 { return uint64(max(s.budget, blockRecords)) / s.per * s.per }

// store writes the first rows in the worker's buffer, or takes note that there is no room for them.
func (s *source) store(w *worker, i int, rows uint64) error {
	if why := s.d.limits.reached(w.now); why != nil {
		s.d.limitReached(w.now, why)
		s.skip(w, i, rows, why)
		return nil
	}
	if err := s.takeSkipped(w, i); err != nil {
		return err
	}
	return s.append(&w.block, s.rows(w, i, int(rows)))
}

// rows makes a block of the first n rows in the worker's buffer.
func (s *source) rows(w *worker, i, n int) logstore.Block {
	b := logstore.Block{Shard: i, First: s.places[i].head / s.per, Plain: s.settings.Kind == channel.Identity}
	if s.kind == logstore.Links {
		b.Links = w.links(n)
	} else {
		b.Events = w.events[:n]
	}
	return b
}

// takeHole accounts for records that a dead owner reserved and never wrote: the next ones, of a
// large hole a part.
func (s *source) takeHole(w *worker, i int, tail uint64) error {
	p := &s.places[i]
	more, err := s.ring.Unwritten(i, p.head+s.per, s.per, min(holeRecords, 4*s.batch()))
	if err != nil {
		return err
	}
	s.budget -= int(more / 4) // it is only looked at
	end := p.head + s.per + more
	if err := s.takeSkipped(w, i); err != nil {
		return err
	}
	rows := (end - p.head) / s.per
	drop := logstore.Drop{Reason: uint64(logstore.NeverWritten), At: p.head / s.per, Count: rows}
	if err := s.appendDrop(w, i, drop); err != nil {
		return err
	}
	s.count(func(c *RingStats) { c.Holes += rows })
	p.head = min(end, tail)
	return s.release(i)
}

// takeJournal writes changes of settings.
func (s *source) takeJournal(w *worker, i int) error {
	p := &s.places[i]
	if s.alive && p.lastGen == s.word.Generation() {
		return nil // the program has nothing to note before it is given something
	}
	entries, _, err := s.ring.Journal(i)
	if err != nil {
		return err
	}
	n := len(entries)
	// Where there was no room for more, the newest entry is written over by the next change: it is the last only where the
	// program has adopted what we set last. apply keeps it from coming to this.
	if n == ring.JournalSize && s.alive && entries[n-1].Word != s.word {
		n--
	}
	if n == 0 {
		return nil
	}
	rows := w.transitions[:0]
	for _, e := range entries[:n] {
		rows = append(rows, logstore.Transition{
			From: e.From / s.per, Generation: e.Word.Generation(), Handler: uint64(e.Settings.Kind), A: e.Settings.A, B: e.Settings.B,
			Counter: e.Counter, Dropped: e.Dropped, Skipped: e.Skipped,
		})
	}
	if err := s.append(&w.block, logstore.Block{Shard: i, First: s.log.Next(logstore.Transitions, i), Transitions: rows}); err != nil {
		return err
	}
	p.journal += uint64(n)
	p.lastGen = entries[n-1].Word.Generation()
	if err := s.release(i); err != nil {
		return err
	}
	if i == 0 {
		now := ring.Now()
		if err := s.log.Change(entries[n-1].Settings, now.Counter, now.Earliest.UnixNano(), now.Latest.UnixNano()); err != nil {
			return logFailure{err}
		}
	}
	return nil
}
