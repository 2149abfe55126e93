package drain

import (
	"errors"
	"fmt"
	"io/fs"

	"github.com/cloudprofiler/cloudprofiler/logstore"
	"github.com/cloudprofiler/cloudprofiler/ring"
)

// readLog reads the end of the log. It looks for records that an earlier drainer wrote but did not
// release in the ring. A drainer releases each block before it writes the next block. So readLog
// needs only the last block of each kind of row: it shows how far the rows of that kind had been
// written.
func (s *source) readLog(segments []logstore.Segment) error {
	for i, segment := range segments {
		if i > 0 && i < len(segments)-1 {
			continue
		}
		f, err := logstore.OpenFile(segment.Path)
		if errors.Is(err, logstore.ErrHeader) || errors.Is(err, logstore.ErrNotLog) ||
			errors.Is(err, fs.ErrNotExist) {
			// This segment is damaged. The log continues after it, and the rows of the damaged
			// segment are missing.
			continue
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
	for _, kind := range []logstore.Kind{logstore.Transitions, logstore.Drops, logstore.Samples,
		logstore.FirstLasts} {
		err := logstore.EachBlock(f.Last(kind).Next, func(b *logstore.Block) error {
			if b.Shard >= len(s.places) {
				return nil
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
			return nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// syncWithLog finds out which part of the ring's content is already in the log, and releases this
// part in the ring. If the ring has released rows that the log lacks, syncWithLog notes in the log
// that they are missing.
func (s *source) syncWithLog(w *worker) error {
	for i := range s.places {
		p := &s.places[i]
		state, err := s.ring.State(i)
		if err != nil {
			return err
		}
		next := s.log.Next(s.kind, i) * s.per
		if next > state.Tail {
			return fmt.Errorf(
				"drain ring %q: shard %d ends at record %d, its log has come to %d: %w",
				s.ring.Path(), i, state.Tail, next, ring.ErrDamaged)
		}
		if next < state.Head {
			// In the ring, the rows from next up to the head are released. A drainer releases rows
			// only after they are in a log. But no log that this drainer found has them.
			lost := (state.Head - next + s.per - 1) / s.per
			drop := logstore.Drop{Reason: uint64(logstore.Damaged), At: next / s.per, Count: lost}
			if err := s.appendDrop(w, i, drop); err != nil {
				return err
			}
			s.count(func(c *RingStats) { c.Missing += lost })
			next = state.Head
		}
		ranges, drops, err := s.ring.Drops(i)
		if err != nil {
			return err
		}
		accounted := state.Dropped
		for k, r := range ranges {
			if r.At >= p.lastAt {
				accounted = r.Before
				ranges = ranges[:k]
				break
			}
		}
		drops += uint64(len(ranges))
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
		p.accounted, p.leftAt = accounted, noPlace
		// Set all bits, because earlier drainers may have released any number of ranges.
		p.releasedBits = 1<<64 - 1
		if err := s.release(i); err != nil {
			return err
		}
		p.tail, p.looked, p.since = p.head, w.now, w.now
	}
	s.synced = true
	return nil
}
