package drain

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"sync"
	"time"

	"github.com/cloudprofiler/cloudprofiler/channel"
	"github.com/cloudprofiler/cloudprofiler/handlertable"
	"github.com/cloudprofiler/cloudprofiler/logstore"
	"github.com/cloudprofiler/cloudprofiler/ring"
)

// source is a ring and the log that it goes into. It belongs to one worker; the group at the end is for all.
type source struct {
	d      *Drainer
	ring   *ring.Consumer
	header ring.Header
	log    *logstore.Log
	dir    string        // where the log is
	kind   logstore.Kind // of its rows
	per    uint64        // records that make a row
	enough uint64        // records that are worth a block: a quarter of a shard, or a whole block

	epoch    string // that is known to hold: of the log, unless breaks are under way
	places   []place
	synced   bool // ring and log agree on the places
	settings channel.Settings
	word     ring.Word
	own      *channel.Settings   // that the program chose; nil: not known
	table    *handlertable.Table // whose settings were applied last
	alive    bool

	nextLook  time.Duration
	lookedAt  time.Duration
	nextTick  time.Duration
	nextCells time.Duration
	retryAt   time.Duration // after a failure of the log
	retry     time.Duration // how long the next one waits

	before    string            // the epoch that was the last to hold, while there are
	breaks    []uint64          // tails of the shards when the log's epoch was seen to have ended; nil: it holds
	firstLast ring.FirstAndLast // as in the log
	counted   uint64            // as in the log
	sampling  *sampling         // while the handler is counter
	rate      rate              // that the handler table bounds the log to
	asked     uint64            // snapshots that the program asked for before the one that is being taken

	mu    sync.Mutex // guards stats
	stats RingStats
}

// place is where a shard's draining stands. Numbers are of the ring: head and tail in records.
type place struct {
	head, drops, journal uint64 // that are safe in the log, as the ring has been told

	tail       uint64        // as seen at the last look
	looked     time.Duration // when that was
	since      time.Duration // nothing has waited longer
	dropped    uint64        // as seen when ranges of drops were taken last
	rangesLeft bool          // a range was left, because it may grow
	growing    uint64        // index of a range, plus 1, that may grow although another place has been reached
	unfinished bool          // a record is reserved and not written

	// Rows that were not stored because a limit was reached, and that the log does not account for yet.
	skipped, skippedAt uint64
	skippedSince       time.Duration

	rate    float64 // of records, in a second: see pace
	shown   shown   // as in the stats
	lastGen uint64  // the last generation that the log has
	lastAt  uint64  // the last place of a range of drops, plus 1, that it had then
}

// logFailure is an error of the log: it is tried again. Errors of the ring set it aside.
type logFailure struct{ error }

func (f logFailure) Unwrap() error { return f.error }

// open opens a ring and its log.
func (d *Drainer) open(path string, logs begun) (*source, error) {
	c, err := ring.OpenConsumer(path)
	if err != nil {
		return nil, err
	}
	s := &source{d: d, ring: c, header: c.Header(), alive: true, kind: logstore.Events, per: 1}
	err = d.admit(s.header.ProcessID, s.header.FileBytes())
	if err == nil {
		err = s.prepare(logs)
	}
	if err != nil {
		if s.log != nil {
			s.log.Close()
		}
		c.Close()
		return nil, err
	}
	return s, nil
}

func (s *source) prepare(logs begun) error {
	if err := s.readSettings(); err != nil {
		return err
	}
	entries, taken, err := s.ring.Journal(0)
	if err != nil {
		return err
	}
	begin := s.settings
	if len(entries) > 0 {
		begin = entries[0].Settings
		if taken == 0 {
			s.own = &begin
		}
	}
	if s.header.Links {
		s.kind, s.per = logstore.Links, 2
	}
	s.enough = min(max(s.header.Records/4, s.per), logstore.MaxRows)
	s.places = make([]place, s.header.Shards)
	dir, segments := logs.of(s.header.Name, s.header.Incarnation)
	s.dir = dir
	if s.log, _, err = logstore.OpenSegments(s.d.o.FileSystem, dir, segments, s.d.o.logHeader(s.header, begin), s.d.o.SegmentBytes); err != nil {
		return logFailure{err}
	}
	if err := s.beginEpoch(); err != nil {
		return err
	}
	if err := s.readLog(segments); err != nil {
		return logFailure{err}
	}
	if first, ok := logs.first(s.header.Name, s.header.Incarnation); ok && s.own == nil {
		if f, err := logstore.OpenFile(first.Path); err == nil { // else what the program chose is not known
			own := f.Header().Settings
			s.own = &own
			f.Close()
		}
	}
	s.stats = RingStats{Path: s.ring.Path(), Channel: s.header.Name, ProcessID: s.header.ProcessID, RingBytes: s.header.FileBytes(), Incarnation: s.header.Incarnation, Policy: s.header.Policy, Alive: true, Settings: s.settings}
	return nil
}

// readLog finds in the end of the log what the ring may not yet know to be there: after each block the ring is told
// before the next is written, so it is in the last block.
func (s *source) readLog(segments []logstore.Segment) error {
	for i, segment := range segments {
		if i > 0 && i < len(segments)-1 {
			continue
		}
		f, err := logstore.OpenFile(segment.Path)
		if errors.Is(err, logstore.ErrHeader) || errors.Is(err, logstore.ErrNotLog) || errors.Is(err, fs.ErrNotExist) {
			continue // a damaged one; what it had is missing in the log that goes on behind it
		}
		if err != nil {
			return err
		}
		err = s.readSegment(f)
		f.Close()
		if err != nil {
			return err
		}
	}
	return nil
}

func (s *source) readSegment(f *logstore.File) error {
	for _, kind := range []logstore.Kind{logstore.Transitions, logstore.Drops, logstore.Samples, logstore.FirstLasts} {
		for cursor := f.Of(kind); ; {
			b, err := cursor.Next()
			var damage *logstore.CorruptionError
			if err == io.EOF {
				break
			}
			if errors.As(err, &damage) {
				continue
			}
			if err != nil {
				return err
			}
			if b.Shard >= len(s.places) {
				continue
			}
			p := &s.places[b.Shard]
			for _, t := range b.Transitions {
				p.lastGen = max(p.lastGen, t.Generation)
			}
			for _, d := range b.Drops {
				if logstore.Reason(d.Reason) == logstore.RingFull {
					p.lastAt = max(p.lastAt, d.At*s.per+1)
				}
			}
			for _, sample := range b.Samples {
				s.counted = sample.Count
			}
			for _, fl := range b.FirstLasts {
				s.firstLast = fromRow(fl)
			}
		}
	}
	return nil
}

// sync makes ring and log agree on what is in the log.
func (s *source) sync(w *worker) error {
	for i := range s.places {
		p := &s.places[i]
		state, err := s.ring.State(i)
		if err != nil {
			return err
		}
		next := s.log.Next(s.kind, i) * s.per
		if next > state.Tail {
			return fmt.Errorf("drain ring %q: shard %d ends at record %d, its log has come to %d: %w", s.ring.Path(), i, state.Tail, next, ring.ErrDamaged)
		}
		if next < state.Head {
			// What the ring gave up as safe is in no log that is here.
			lost := (state.Head - next + s.per - 1) / s.per
			drop := logstore.Drop{Of: uint64(s.kind), Reason: uint64(logstore.Damaged), At: next / s.per, Count: lost}
			if err := s.append(&w.block, logstore.Block{Shard: i, First: s.log.Next(logstore.Drops, i), Drops: append(w.drops[:0], drop)}); err != nil {
				return err
			}
			s.count(func(c *RingStats) { c.Missing += lost })
			next = state.Head
		}
		ranges, drops, err := s.ring.Drops(i)
		if err != nil {
			return err
		}
		for _, r := range ranges {
			if r.At < p.lastAt {
				drops++
			}
		}
		entries, journal, err := s.ring.Journal(i)
		if err != nil {
			return err
		}
		for _, e := range entries {
			if e.Word.Generation() <= p.lastGen {
				journal++
			}
		}
		p.head, p.drops, p.journal = next, drops, journal
		if err := s.release(i); err != nil {
			return err
		}
		p.tail, p.looked, p.since = p.head, w.now, w.now
	}
	s.synced = true
	return nil
}

func (s *source) release(i int) error {
	p := &s.places[i]
	if err := s.ring.Release(i, p.head, p.drops, p.journal); err != nil {
		return err
	}
	s.d.fault(AfterHead)
	return nil
}

// append writes a block. The caller then tells the ring.
func (s *source) append(b *logstore.Block, as logstore.Block) error {
	*b = as
	b.Incarnation = s.header.Incarnation
	if err := s.holdEpoch(); err != nil {
		return err
	}
	s.d.fault(BeforeWrite)
	before := s.log.Size()
	removed := s.log.Removed()
	if err := s.log.Append(b); err != nil {
		return logFailure{err}
	}
	s.d.fault(AfterWrite)
	s.retry = 0
	wrote := s.log.Size()
	if wrote > before {
		wrote -= before
	}
	s.d.limits.add(wrote)
	s.count(func(c *RingStats) {
		c.Blocks++
		c.Rows += uint64(b.Len())
		c.LogBytes += uint64(wrote)
		c.Failure = nil
		c.Removed += s.log.Removed() - removed
	})
	return nil
}

func (s *source) count(change func(*RingStats)) {
	s.mu.Lock()
	change(&s.stats)
	s.mu.Unlock()
}

// look does what is due at the ring, and with all what could be. done says that nothing is left to do for ever.
func (s *source) look(w *worker, all bool) (done bool) {
	if w.now < s.retryAt && !all {
		s.nextLook = s.retryAt
		return false
	}
	s.nextLook, s.lookedAt = w.now+w.rest(), w.now
	done, err := s.drain(w, all)
	var failure logFailure
	switch {
	case err == nil:
		return done
	case errors.As(err, &failure):
		s.fail(w, err)
		return false
	}
	s.setAside(w, err)
	return true
}

// fail has the log tried again later.
func (s *source) fail(w *worker, err error) {
	if s.retry == 0 {
		s.d.notify(err)
		s.retry = retryFirst
	} else {
		s.retry = min(2*s.retry, retryLast)
	}
	s.retryAt = w.now + s.retry
	s.nextLook = s.retryAt
	s.count(func(c *RingStats) { c.Failures++; c.Failure = err })
	makeLogs(s.d.Logs()) // it may be the directory that is gone
}

// drain is look, with its error.
func (s *source) drain(w *worker, all bool) (done bool, err error) {
	if !s.synced {
		if err := s.sync(w); err != nil {
			return false, err
		}
	}
	logs := s.d.Logs()
	moving := s.dir != logs
	breaking := s.breaks != nil
	all = all || moving || breaking && s.header.Policy != channel.Overwrite
	ticks := all || w.now >= s.nextTick
	if ticks {
		s.nextTick = w.now + tick
		if err := s.tick(); err != nil {
			return false, err
		}
	}
	for i := range s.places {
		if err := s.shard(w, i, ticks, all || !s.alive); err != nil {
			return false, err
		}
	}
	if err := s.cells(w, all || !s.alive); err != nil {
		return false, err
	}
	if breaking {
		if err := s.enterEpoch(); err != nil {
			return false, err
		}
	}
	if !s.alive {
		return true, s.finish(w)
	}
	if moving {
		if err := s.log.Move(logs); err != nil {
			return false, logFailure{err}
		}
		s.dir = logs
	}
	return false, nil
}

// tick looks at what changes rarely.
func (s *source) tick() error {
	if s.alive {
		var err error
		// Once it is false nothing changes any more: what is read after it is the last.
		if s.alive, err = s.ring.Alive(); err != nil {
			return err
		}
		if !s.alive {
			s.count(func(c *RingStats) { c.Alive = false })
		}
	}
	if err := s.readSettings(); err != nil {
		return err
	}
	if !s.alive {
		return nil
	}
	if err := s.wantsSnapshot(); err != nil {
		return err
	}
	return s.apply()
}

// readSettings reads what the ring's settings are now. Those that nobody can take are what the program takes them for.
func (s *source) readSettings() error {
	settings, word, err := s.ring.Settings()
	if err != nil {
		return err
	}
	if settings.Validate() != nil {
		settings = channel.Settings{}
	}
	if s.settings != settings {
		s.count(func(c *RingStats) { c.Settings = settings })
	}
	s.settings, s.word = settings, word
	return nil
}

// shard does what is due at one shard.
func (s *source) shard(w *worker, i int, ticks, all bool) error {
	p := &s.places[i]
	state, err := s.ring.State(i)
	if err != nil {
		return err
	}
	if state.Tail%s.per != 0 {
		return fmt.Errorf("drain ring %q: shard %d ends at record %d, in the middle of a pair: %w", s.ring.Path(), i, state.Tail, ring.ErrDamaged)
	}
	came := state.Tail - p.tail
	err = s.take(w, i, state, ticks, all)
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
	if now := (shown{state.Tail - p.head, state.Dropped, state.Flags}); came > 0 || now != p.shown {
		p.shown = now
		s.count(func(c *RingStats) {
			c.Events += came / s.per
			if c.shards == nil {
				c.shards = make([]shown, len(s.places))
			}
			c.shards[i] = now
		})
	}
	return err // what is shown of a ring moves on while its log cannot be written
}

// take writes what a shard has, as far as it is due, into the log.
func (s *source) take(w *worker, i int, state ring.State, ticks, all bool) error {
	p := &s.places[i]
	if ticks {
		if err := s.takeJournal(w, i); err != nil {
			return err
		}
	}
	if state.Dropped != p.dropped || p.rangesLeft && (ticks || all) {
		if err := s.takeDrops(w, i, state); err != nil {
			return err
		}
	}
	if s.header.Policy == channel.Overwrite { // which is left until somebody wants it
		return nil
	}
	return s.takeRecords(w, i, state.Tail, all)
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
func (s *source) takeRecords(w *worker, i int, tail uint64, all bool) error {
	p := &s.places[i]
	// The next look may come a poll later than now.
	due := all || w.now+s.d.o.Poll-p.since >= s.hold()
	p.unfinished = false
	for p.head < tail && (due || tail-p.head >= s.enough) {
		first, n, unfinished, err := s.ring.Copy(i, p.head, w.records[:min(uint64(len(w.records)), tail-p.head)])
		if err != nil {
			return err
		}
		if first != p.head {
			return fmt.Errorf("drain ring %q: shard %d gave record %d for %d: %w", s.ring.Path(), i, first, p.head, ring.ErrDamaged)
		}
		rows := uint64(n) / s.per
		if rows == 0 {
			if s.alive {
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
	if all || p.skipped > 0 && w.now-p.skippedSince >= blockHold {
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

// store writes the first rows in the worker's buffer, or takes note that there is no room for them.
func (s *source) store(w *worker, i int, rows uint64) error {
	if why := s.d.limits.reached(w.now); why != nil {
		if s.places[i].skipped == 0 {
			s.d.limitReached(why)
		}
		return s.skip(w, i, rows, why)
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

// takeHole accounts for records that a dead owner reserved and never wrote: the next ones.
func (s *source) takeHole(w *worker, i int, tail uint64) error {
	p := &s.places[i]
	end := p.head + s.per
	for end+s.per <= tail {
		_, n, _, err := s.ring.Copy(i, end, w.records[:s.per])
		if err != nil {
			return err
		}
		if uint64(n) == s.per {
			break
		}
		end += s.per
	}
	if err := s.takeSkipped(w, i); err != nil {
		return err
	}
	rows := (end - p.head) / s.per
	drop := logstore.Drop{Of: uint64(s.kind), Reason: uint64(logstore.NeverWritten), At: p.head / s.per, Count: rows}
	if err := s.append(&w.block, logstore.Block{Shard: i, First: s.log.Next(logstore.Drops, i), Drops: append(w.drops[:0], drop)}); err != nil {
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

// dropRanges is how many ranges of drops a ring has room for.
const dropRanges = 64

// takeDrops writes ranges of dropped events that cannot grow any more. state was read before.
func (s *source) takeDrops(w *worker, i int, state ring.State) error {
	p := &s.places[i]
	ranges, _, err := s.ring.Drops(i)
	if err != nil {
		return err
	}
	n := len(ranges)
	if n == 0 {
		p.dropped, p.rangesLeft = state.Dropped, false
		return nil
	}
	if s.alive {
		// The last range grows as long as its place is the tail. One writer that has moved on has left it for good; of many,
		// one that saw the old tail may still be at it. Where there was no room for another range, it grows at any place.
		last := p.drops + uint64(n)
		if n == dropRanges {
			p.growing = last
		}
		if s.header.ManyWriters || state.Tail <= ranges[n-1].At || p.growing == last {
			n--
		}
	}
	rows := w.drops[:0]
	for _, r := range ranges[:n] {
		if r.Count > 0 { // else the program died over it
			rows = append(rows, logstore.Drop{
				Of: uint64(s.kind), Reason: uint64(logstore.RingFull), At: r.At / s.per, Count: r.Count, FirstCounter: r.FirstCounter, LastCounter: r.LastCounter,
			})
		}
	}
	if len(rows) > 0 {
		if err := s.append(&w.block, logstore.Block{Shard: i, First: s.log.Next(logstore.Drops, i), Drops: rows}); err != nil {
			return err
		}
	}
	p.dropped, p.rangesLeft = state.Dropped, n < len(ranges)
	if n == 0 {
		return nil
	}
	p.drops += uint64(n)
	return s.release(i)
}

// finish ends the log of a ring whose owner is gone, and removes the ring.
func (s *source) finish(w *worker) error {
	if s.header.Policy == channel.Overwrite {
		if err := s.dump(w); err != nil {
			return err
		}
	}
	s.d.fault(BeforeSeal)
	if err := s.log.Seal(); err != nil && !errors.Is(err, logstore.ErrRemoved) {
		return logFailure{err}
	}
	s.d.fault(AfterSeal)
	if err := s.ring.Remove(); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	s.d.fault(AfterRemove)
	s.leave(w)
	return nil
}

// leave gives back what the source holds. The log is left to be opened again.
func (s *source) leave(w *worker) error {
	s.d.sampler.stop(s)
	err := s.log.Close()
	if closeErr := s.ring.Close(); err == nil {
		err = closeErr
	}
	return err
}

// setAside gives a ring up that cannot be trusted any more, and says in its log what was not read.
func (s *source) setAside(w *worker, reason error) {
	for i := range s.places {
		p := &s.places[i]
		next := s.log.Next(s.kind, i)
		if !s.synced || s.header.Policy == channel.Overwrite || p.tail/s.per <= next {
			continue
		}
		drop := logstore.Drop{Of: uint64(s.kind), Reason: uint64(logstore.Unread), At: next, Count: p.tail/s.per - next}
		if s.append(&w.block, logstore.Block{Shard: i, First: s.log.Next(logstore.Drops, i), Drops: append(w.drops[:0], drop)}) != nil {
			break // the disk as well: the reason below has to do
		}
		s.count(func(c *RingStats) { c.Unread += drop.Count })
	}
	s.log.Seal()
	s.leave(w)
	s.d.setAside(s, reason)
}

// dump writes what a flight recorder holds and the log does not have.
func (s *source) dump(w *worker) error {
	const shard = 0 // a flight recorder has one writer
	p := &s.places[shard]
	state, err := s.ring.State(shard)
	if err != nil {
		return err
	}
	size := min(s.header.Records, dumpRecords)
	from := p.head
	if state.Tail > size {
		from = max(from, state.Tail-size)
	}
	if from >= state.Tail {
		return nil
	}
	buffer := make([]ring.Record, min(size, state.Tail-from))
	first, n, _, err := s.ring.Copy(shard, from, buffer)
	if err != nil {
		return err
	}
	buffer = buffer[:n]
	if first > p.head {
		gone := (first - p.head) / s.per
		drop := logstore.Drop{Of: uint64(s.kind), Reason: uint64(logstore.Overwritten), At: p.head / s.per, Count: gone}
		if err := s.append(&w.block, logstore.Block{First: s.log.Next(logstore.Drops, shard), Drops: append(w.drops[:0], drop)}); err != nil {
			return err
		}
		p.head = first
		if err := s.release(shard); err != nil {
			return err
		}
	}
	for len(buffer) >= int(s.per) {
		n := copy(w.records, buffer)
		rows := uint64(n) / s.per
		if err := s.store(w, shard, rows); err != nil {
			return err
		}
		buffer = buffer[rows*s.per:]
		p.head += rows * s.per
		if err := s.release(shard); err != nil {
			return err
		}
	}
	return s.takeSkipped(w, shard)
}
