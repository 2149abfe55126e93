package drain

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cloudprofiler/cloudprofiler/channel"
	"github.com/cloudprofiler/cloudprofiler/handlertable"
	"github.com/cloudprofiler/cloudprofiler/logstore"
	"github.com/cloudprofiler/cloudprofiler/ring"
)

// source is a ring and its log. It belongs to one worker. Of the fields that change, other
// goroutines use only these: process, yields, clearAt, and the fields from mu on.
type source struct {
	d      *Drainer
	ring   *ring.Consumer
	header ring.Header
	log    *logstore.Log
	dir    string        // the directory of the log
	kind   logstore.Kind // the kind of the log's rows: events or links
	per    uint64        // number of records in a row
	// process is the process to which the drainer attributes the ring. Drainer.mu protects it once
	// the source is in Drainer.sources.
	process process
	place   string // where the process runs; "": not known
	file    ring.FileID
	yields  atomic.Bool // the worker must give up the ring, because another process needs its room
	enough  uint64      // number of waiting records to write: a quarter of a shard, or a block

	epoch    string // the present epoch; if breaks is nil, also the epoch of the log
	places   []shardPlace
	synced   bool // true if ring and log agree on what is in the log
	settings channel.Settings
	word     ring.Word
	own      channel.Settings    // the settings that the program chose
	table    *handlertable.Table // the table with the settings that were applied last
	alive    bool

	hurried bool // half of the shard is waiting, so the next block must be quick to encode

	budget     int      // how many records this look may still take
	first      int      // the shard at which the next look begins
	more       bool     // the last look had phase flushAll or programGone, and must be continued
	flushTails []uint64 // the shards' tails when the present flush began; nil: no flush

	nextLook  time.Duration
	lookedAt  time.Duration
	nextTick  time.Duration
	nextCells time.Duration
	retryAt   time.Duration // the time of the next attempt, after a failure of the log
	retry     time.Duration // the last wait after a failure; 0: there was no failure

	before string // the last certain epoch of the log; valid if breaks is not nil
	// If breaks is not nil, the log's epoch has ended, and the log has not entered the present
	// epoch yet. Then breaks has the tails of the shards at the time when the drainer noticed the
	// end of the epoch.
	breaks    []uint64
	firstLast ring.FirstAndLast // the last value in the log
	counted   uint64            // the last value in the log
	sampling  *ringSampling     // not nil while the handler is counter
	rate      rowRate           // the limit on rows per second in the handler table
	asked     uint64            // number of snapshots that the program has asked for

	// clearAt is a moment, as a time.Duration. The drainer has taken from the ring everything that
	// was logged before this moment. Any goroutine may read clearAt.
	clearAt atomic.Int64

	mu    sync.Mutex // protects all below
	stats RingStats
	told  returnedCounts // what the last Sample said
}

// open opens a ring and its log. If isNew is true and the ring has a log already, the method open
// returns an error.
func (d *Drainer) open(path string, logs segmentLists, isNew bool) (*source, error) {
	c, err := ring.OpenConsumer(path)
	if err != nil {
		return nil, err
	}
	s := &source{d: d, ring: c, header: c.Header(), alive: true, kind: logstore.Events, per: 1}
	s.findBoot()
	s.process = processOf(s.header)
	if s.file, err = c.File(); err == nil {
		err = d.admitNew(s)
	}
	if err == nil && isNew && logs.hasLog(s.header.Name, s.header.Incarnation) {
		err = fmt.Errorf("open ring %q: the ring is new, but its log is not: it has the "+
			"identity of another ring: %w",
			path, ring.ErrUntrusted)
	}
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

func (s *source) prepare(logs segmentLists) error {
	if err := s.readSettings(); err != nil {
		return err
	}
	own, err := s.ring.Chosen()
	if err != nil {
		return err
	}
	if own.Validate() == nil {
		s.own = own
	}
	entries, taken, err := s.ring.Journal(0)
	if err != nil {
		return err
	}
	begin := s.settings
	switch {
	case taken == 0:
		begin = s.own
	case len(entries) > 0:
		begin = entries[0].Settings
	}
	if s.header.Links {
		s.kind, s.per = logstore.Links, 2
	}
	s.enough = min(max(s.header.Records/4, s.per), logstore.MaxRows)
	s.places = make([]shardPlace, s.header.Shards)
	for i := range s.places {
		s.places[i].clear = s.d.now()
	}
	s.noteClear()
	dir, segments := logs.logOf(s.header.Name, s.header.Incarnation)
	if err := s.openLog(dir, segments, begin); err != nil {
		return err
	}
	if now := logs.dirs[0]; s.log.Size() == 0 && dir != now {
		// The log was sealed in a directory that is no longer in use, so it must not continue
		// there.
		if err := s.openLog(now, segments, begin); err != nil {
			return err
		}
	}
	// An earlier drainer died while it moved the log. The program logged the present content of the
	// ring after the move had begun, so the log must continue in the new directory.
	if logs := s.d.Logs(); s.log.Moved() && dir != logs {
		if err := s.log.Move(logs); err != nil {
			return logFailure{err}
		}
		s.dir = logs
	}
	if err := s.beginEpoch(); err != nil {
		return err
	}
	if err := s.readLog(segments); err != nil {
		return logFailure{err}
	}
	s.stats = RingStats{
		Path: s.ring.Path(), Channel: s.header.Name, Incarnation: s.header.Incarnation,
		ProcessID: s.header.ProcessID, PIDNamespace: s.header.PIDNamespace, Place: s.place,
		RingBytes: s.header.FileBytes(), Policy: s.header.Policy, Alive: true, Settings: s.settings,
	}
	return nil
}

func (s *source) openLog(dir string, segments []logstore.Segment,
	begin channel.Settings) (err error) {
	o := &s.d.o
	s.dir = dir
	if s.place == "" && o.Place != nil {
		s.place = o.Place(s.header.PIDNamespace, s.header.ProcessID)
	}
	s.log, err = logstore.OpenSegments(o.FileSystem, dir, segments,
		o.logHeader(s.header, begin, s.place), o.SegmentBytes)
	if err != nil {
		return logFailure{err}
	}
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

// appendBlock writes a block. After that, the caller releases the block's rows in the ring.
func (s *source) appendBlock(b *logstore.Block, as logstore.Block) error {
	*b = as
	b.Incarnation = s.header.Incarnation
	if err := s.holdEpoch(); err != nil {
		return err
	}
	s.d.fault(BeforeWrite)
	before := s.log.Size()
	removed := s.log.Removed()
	switch err := s.log.Append(b); {
	case errors.Is(err, logstore.ErrSequence), errors.Is(err, logstore.ErrBlock):
		// A disk cannot cause this error, so the ring must contradict itself.
		return fmt.Errorf("drain ring %q: %w: %w", s.ring.Path(), err, ring.ErrDamaged)
	case err != nil:
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

// appendDrop writes to the log which rows are missing there, and why.
func (s *source) appendDrop(w *worker, shard int, drop logstore.Drop) error {
	drop.Of = uint64(s.kind)
	return s.appendBlock(&w.block, logstore.Block{
		Shard: shard, First: s.log.Next(logstore.Drops, shard), Drops: append(w.drops[:0], drop),
	})
}

func (s *source) count(change func(*RingStats)) {
	s.mu.Lock()
	change(&s.stats)
	s.mu.Unlock()
}

// lookAtRing does for the ring everything that the phase requires. It reports whether the source
// has ended.
func (s *source) lookAtRing(w *worker, asked phase) (done bool) {
	if w.now < s.retryAt && asked == programLives {
		s.nextLook = s.retryAt
		return false
	}
	s.nextLook, s.lookedAt = w.now+w.longestRest(), w.now
	done, err := s.drainRing(w, asked)
	switch causeOf(err) {
	case none:
		if s.retry > 0 {
			s.retry = 0
			s.count(func(c *RingStats) { c.Failure = nil })
		}
		return done
	case untrustedRing:
		s.setAside(w, err)
		return true
	}
	s.more = false // do not continue before retryAt
	s.reportFailure(w, err)
	return false
}

// reportFailure reports an error, unless the previous attempt failed, too. It sets the time of the
// next attempt.
func (s *source) reportFailure(w *worker, err error) {
	if s.retry == 0 {
		s.d.notify(err)
		s.retry = retryFirst
	} else {
		s.retry = min(2*s.retry, retryLast)
	}
	s.retryAt = w.now + s.retry
	s.nextLook = s.retryAt
	s.count(func(c *RingStats) { c.Failures++; c.Failure = err })
	makeLogs(s.d.Logs()) // create the directory again, because it may be gone
}

// drainRing does the work of lookAtRing, and returns errors without handling them.
func (s *source) drainRing(w *worker, asked phase) (done bool, err error) {
	s.budget, s.more = w.portionSize(), false
	if !s.synced {
		if err := s.syncWithLog(w); err != nil {
			return false, err
		}
	}
	logs := s.d.Logs()
	moving := s.dir != logs
	breaking := s.breaks != nil
	now := asked
	if moving || breaking && s.header.Policy != channel.Overwrite {
		now = flushAll
	}
	if ticks := now != programLives || !s.alive || w.now >= s.nextTick; ticks {
		if err := s.checkRarely(); err != nil {
			return false, err
		}
		if !s.alive {
			now = programGone
		}
		for i := range s.places {
			if err := s.takeJournal(w, i); err != nil {
				return false, err
			}
		}
		s.nextTick = w.now + checkPeriod // only now: an error above must not delay the next tick
	}
	if now == flushAll && s.flushTails == nil {
		if s.flushTails, err = s.shardTails(); err != nil {
			return false, err
		}
	}
	for i := range s.places {
		if err := s.drainShard(w, (s.first+i)%len(s.places), now); err != nil {
			return false, err
		}
	}
	s.first = (s.first + 1) % len(s.places)
	s.noteClear()
	if s.budget <= 0 {
		w.hungry++
	}
	if s.more {
		return false, nil
	}
	if now == flushAll {
		s.flushTails = nil
	}
	if err := s.logCells(w, now); err != nil {
		return false, err
	}
	if breaking {
		if err := s.enterEpoch(); err != nil {
			return false, err
		}
	}
	if now == programGone {
		return true, s.finishRing(w)
	}
	if moving {
		if err := s.log.Move(logs); err != nil {
			return false, logFailure{err}
		}
		s.dir = logs
	}
	return false, nil
}

// checkRarely checks things that rarely change.
func (s *source) checkRarely() error {
	if s.alive {
		var err error
		// Once alive is false, the program changes nothing any more. So everything that is read
		// after this is final.
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
	return s.setSettings()
}

// readSettings reads the ring's present settings. It replaces invalid settings with null, as the
// program does.
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
