package drain

import (
	"fmt"
	"time"

	"github.com/cloudprofiler/cloudprofiler/channel"
	"github.com/cloudprofiler/cloudprofiler/logstore"
	"github.com/cloudprofiler/cloudprofiler/ring"
)

// shardPlace is the state of draining one shard of a ring. A ring with many writers may have
// several shards. The positions in a shardPlace are sequence numbers of the ring. They count
// records, not rows.
type shardPlace struct {
	head, drops, journal uint64 // everything up to here is in the log, and released in the ring

	tail      uint64        // the ring's tail at the last look
	looked    time.Duration // the time of the last look
	clear     time.Duration // the time of the last look that left no record in the ring
	since     time.Duration // a time before which none of the waiting records arrived
	dropped   uint64        // the ring's number of dropped events when takeDrops last ran
	accounted uint64        // number of dropped events that are in the log
	// releasedBits says which numbers of released ranges the ring may have shown until now: bit k
	// stands for the number drops − k.
	releasedBits uint64
	// leftAt is the place of a range of dropped events that takeDrops has not written yet: the
	// range may grow until the ring's tail has passed leftAt. If there is no such range, leftAt is
	// noPlace.
	leftAt     uint64
	unfinished bool // a record is reserved but not written

	// The next three fields are about rows that the drainer did not store because of a limit, and
	// has not yet accounted for in the log.
	skipped, skippedAt uint64
	skippedSince       time.Duration

	rate    float64    // records per second: see waitTime
	shown   shownStats // what the stats show
	lastGen uint64     // the last generation of settings in the log
	lastAt  uint64     // 1 + place of the log's last range of drops at the start; 0: none
}

// noPlace is a place after all records.
const noPlace = 1<<64 - 1

// drainShard does for one shard everything that the phase requires.
func (s *source) drainShard(w *worker, i int, now phase) error {
	p := &s.places[i]
	state, err := s.ring.State(i)
	if err != nil {
		return err
	}
	came := state.Tail - p.tail
	err = s.takeDue(w, i, state, now)
	if err == nil && s.header.Policy != channel.Overwrite {
		s.nextLook = min(s.nextLook, w.now+p.waitTime(state, w.now, s.header.Records))
	}
	if state.Flags&ring.FlagClosed != 0 && s.alive {
		s.nextTick = w.now // the program is about to release the lock
		s.nextLook = min(s.nextLook, w.now+time.Millisecond)
	}
	p.tail, p.looked = state.Tail, w.now
	if p.head >= state.Tail {
		p.clear = w.now
	}
	if came > 0 {
		w.moved = w.now
	}
	if next := (shownStats{state.Tail - p.head, state.Dropped, state.Flags}); came > 0 ||
		next != p.shown {
		p.shown = next
		s.count(func(c *RingStats) {
			c.Events += came / s.per
			if c.shards == nil {
				c.shards = make([]shownStats, len(s.places))
			}
			c.shards[i] = next
		})
	}
	return err // update the stats even if the log cannot be written
}

// takeDue writes to the log those parts of a shard that are due.
func (s *source) takeDue(w *worker, i int, state ring.State, now phase) error {
	p := &s.places[i]
	if state.Dropped != p.dropped || state.Tail > p.leftAt || now == programGone {
		if err := s.takeDrops(w, i, state, now); err != nil {
			return err
		}
	}
	if s.header.Policy == channel.Overwrite { // the records stay until a snapshot is taken
		return nil
	}
	return s.takeRecords(w, i, state.Tail, now)
}

// fastestRate is more than the number of records that a core can log per second.
const fastestRate = 1e8

// waitTime returns how long to wait before looking at a shard again, so that at most a quarter of
// the shard is full by then. It returns 0 if a quarter is full already.
//
// Programs log in bursts, so the highest recent rate counts. If the program was slower since the
// worker last looked, this rate is halved, which doubles the wait. If the shard was full, the
// program may have waited for room. Its rate is then unknown, and the constant fastestRate replaces
// it.
func (p *shardPlace) waitTime(state ring.State, now time.Duration, records uint64) time.Duration {
	const longest = time.Hour
	came := state.Tail - p.tail
	p.rate /= 2
	switch over := now - p.looked; {
	case state.Tail-state.Head >= records:
		p.rate = fastestRate
	case over > 0:
		p.rate = max(p.rate, float64(came)/over.Seconds())
	}
	waiting := state.Tail - min(p.head, state.Tail)
	switch {
	case p.unfinished:
		return time.Millisecond // look again soon: a writer is about to finish a record
	case waiting >= records/4:
		return 0
	}
	seconds := float64(records/4-waiting) / max(p.rate, 1) / 2
	// This wait becomes ever shorter as the shard comes near a quarter full. So wait at least for
	// the time earlyBy, or for an eighth of the time until the shard is full, if that is shorter.
	seconds = max(seconds, min(earlyBy.Seconds(), float64(records-waiting)/max(p.rate, 1)/8))
	return time.Duration(min(seconds*1e9, float64(longest)))
}

// holdTime returns how long events may wait in the ring before they are written.
func (s *source) holdTime() time.Duration {
	if s.settings.Kind == channel.Identity || s.d.sample.on() {
		return identityHold
	}
	return blockHold
}

// takeRecords writes those records of a shard that wait below the position tail, if they are due.
func (s *source) takeRecords(w *worker, i int, tail uint64, now phase) error {
	p := &s.places[i]
	// Take events now if they would otherwise wait too long: the worker may look at the ring again
	// only after one more Poll.
	due := now != programLives || w.now+s.d.o.Poll-p.since >= s.holdTime()
	p.unfinished = false
	end := tail
	if now == flushAll {
		end = min(tail, s.flushTails[i])
	}
	for p.head < end && (due || tail-p.head >= s.enough) {
		if s.budget <= 0 {
			s.nextLook = w.now
			s.more = now != programLives
			break
		}
		most := min(uint64(len(w.records)), end-p.head, s.batchSize())
		first, n, unfinished, err := s.ring.Copy(i, p.head, w.records[:most])
		if err != nil {
			return err
		}
		if first != p.head {
			return fmt.Errorf("drain ring %q: shard %d gave record %d for %d: %w", s.ring.Path(), i,
				first, p.head, ring.ErrDamaged)
		}
		s.budget -= max(n, blockRecords)
		rows := uint64(n) / s.per
		if rows == 0 {
			if now != programGone {
				// A writer is still writing this record.
				p.unfinished = unfinished
				break
			}
			if err := s.takeHole(w, i, tail); err != nil {
				return err
			}
			continue
		}
		kept := rows
		// At a limit the drainer stores nothing, so the rate does not matter.
		if s.d.limits.checkLimits(w.now) == nil {
			kept = s.rate.allowRows(w.now, rows)
		}
		// If half of the shard's records are waiting, the program will soon find the shard full. So
		// take no time to compress.
		s.hurried = now == programLives && tail-p.head >= s.header.Records/2
		if kept > 0 {
			if err := s.storeRows(w, i, kept); err != nil {
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
		s.takeSample(w, int(rows))
	}
	if now != programLives || p.skipped > 0 && w.now-p.skippedSince >= blockHold {
		if err := s.takeSkipped(w, i); err != nil {
			return err
		}
	}
	switch {
	case p.head == tail:
		p.since = w.now
	case p.head >= p.tail: // the waiting records arrived after the last look
		p.since = max(p.since, p.looked)
	}
	return nil
}

// batchSize returns how many records to copy at once: what the worker may still take from the ring
// this time, but at least blockRecords, rounded down to whole rows.
func (s *source) batchSize() uint64 { return uint64(max(s.budget, blockRecords)) / s.per * s.per }

// storeRows writes the first rows in the worker's buffer to the log. If a limit is reached, it only
// notes that these rows were not stored.
func (s *source) storeRows(w *worker, i int, rows uint64) error {
	if why := s.d.limits.checkLimits(w.now); why != nil {
		s.d.limitReached(w.now, why)
		s.noteSkipped(w, i, rows, why)
		return nil
	}
	if err := s.takeSkipped(w, i); err != nil {
		return err
	}
	return s.appendBlock(&w.block, s.makeBlock(w, i, int(rows)))
}

// makeBlock makes a block from the first n rows in the worker's buffer.
func (s *source) makeBlock(w *worker, i, n int) logstore.Block {
	b := logstore.Block{
		Shard: i, First: s.places[i].head / s.per, Plain: s.settings.Kind == channel.Identity,
		Hurried: s.hurried,
	}
	if s.kind == logstore.Links {
		b.Links = w.firstLinks(n)
	} else {
		b.Events = w.events[:n]
	}
	return b
}

// takeHole deals with a hole at the head: records that a dead program reserved but never wrote. It
// notes in the log that these records are missing. It deals with a large hole in several parts.
func (s *source) takeHole(w *worker, i int, tail uint64) error {
	p := &s.places[i]
	more, err := s.ring.Unwritten(i, p.head+s.per, s.per, min(holeRecords, 4*s.batchSize()))
	if err != nil {
		return err
	}
	s.budget -= int(more / 4) // examining records is cheaper than writing them
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

// takeJournal writes the changes of settings to the log.
func (s *source) takeJournal(w *worker, i int) error {
	p := &s.places[i]
	if s.alive && p.lastGen == s.word.Generation() {
		return nil // the program writes an entry only if it sees new settings
	}
	entries, _, err := s.ring.Journal(i)
	if err != nil {
		return err
	}
	n := len(entries)
	// If the journal is full, the program overwrites the newest entry at the next change. So the
	// newest entry is final only if the program has adopted the drainer's last settings. This check
	// is only a precaution: setSettings already waits until the journal has room.
	if n == ring.JournalSize && s.alive && entries[n-1].Word != s.word {
		n--
	}
	if n == 0 {
		return nil
	}
	rows := w.transitions[:0]
	for _, e := range entries[:n] {
		rows = append(rows, logstore.Transition{
			From: e.From / s.per, Generation: e.Word.Generation(), Handler: uint64(e.Settings.Kind),
			A: e.Settings.A, B: e.Settings.B,
			Counter: e.Counter, Dropped: e.Dropped, Skipped: e.Skipped,
		})
	}
	if err := s.appendBlock(&w.block, logstore.Block{Shard: i,
		First: s.log.Next(logstore.Transitions, i), Transitions: rows}); err != nil {
		return err
	}
	p.journal += uint64(n)
	p.lastGen = entries[n-1].Word.Generation()
	if err := s.release(i); err != nil {
		return err
	}
	if i == 0 {
		now := ring.Now()
		if err := s.log.Change(entries[n-1].Settings, now.Counter, now.Earliest.UnixNano(),
			now.Latest.UnixNano()); err != nil {
			return logFailure{err}
		}
	}
	return nil
}
