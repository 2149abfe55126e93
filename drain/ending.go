package drain

import (
	"errors"
	"fmt"

	"github.com/cloudprofiler/cloudprofiler/channel"
	"github.com/cloudprofiler/cloudprofiler/logstore"
	"github.com/cloudprofiler/cloudprofiler/ring"
)

// finishRing ends the log of a ring and removes the ring. The ring's owner must be gone.
func (s *source) finishRing(w *worker) error {
	if s.header.Policy == channel.Overwrite {
		if err := s.dumpRecorder(w); err != nil {
			return err
		}
	}
	if err := s.checkComplete(); err != nil {
		return err
	}
	s.d.fault(BeforeSeal)
	if err := s.log.Seal(); err != nil && !errors.Is(err, logstore.ErrRemoved) {
		return logFailure{err}
	}
	s.d.fault(AfterSeal)
	if err := s.d.remove(s); err != nil {
		return err
	}
	s.d.fault(AfterRemove)
	s.closeRing(w)
	return nil
}

// checkComplete returns an error if the ring of a dead program contains anything that is not in its
// log. In that case the drainer does not remove the ring. So nothing is lost even if draining has a
// defect.
func (s *source) checkComplete() error {
	for i := range s.places {
		if err := s.completeShard(i); err != nil {
			return fmt.Errorf("end ring %q: shard %d: %w", s.ring.Path(), i, err)
		}
	}
	cells, err := s.ring.FirstAndLast()
	if err != nil {
		return err
	}
	if cells != s.firstLast {
		return fmt.Errorf("end ring %q: it has first and last of %d events, and its log of %d: %w",
			s.ring.Path(), cells.Count, s.firstLast.Count, ring.ErrDamaged)
	}
	counted, err := s.ring.Counted()
	if err != nil {
		return err
	}
	if counted != s.counted {
		return fmt.Errorf("end ring %q: it has counted %d events, and its log says %d: %w",
			s.ring.Path(), counted, s.counted, ring.ErrDamaged)
	}
	return nil
}

func (s *source) completeShard(i int) error {
	p := &s.places[i]
	state, err := s.ring.State(i)
	if err != nil {
		return err
	}
	ranges, _, err := s.ring.Drops(i)
	if err != nil {
		return err
	}
	entries, _, err := s.ring.Journal(i)
	if err != nil {
		return err
	}
	switch {
	case state.Tail != p.head:
		return fmt.Errorf("it has records up to %d, and its log up to %d: %w",
			state.Tail, p.head, ring.ErrDamaged)
	case state.Dropped != p.accounted || len(ranges) > 0:
		return fmt.Errorf("it dropped %d events, its log says %d, and lacks %d ranges: %w",
			state.Dropped, p.accounted, len(ranges), ring.ErrDamaged)
	case len(entries) > 0:
		return fmt.Errorf("%d changes of settings are not in its log: %w", len(entries),
			ring.ErrDamaged)
	case p.skipped > 0:
		return fmt.Errorf("%d rows were not stored, and its log does not say so: %w",
			p.skipped, ring.ErrDamaged)
	}
	return nil
}

// closeRing closes the ring and its log without changing them. A drainer can open both again.
func (s *source) closeRing(w *worker) error {
	s.d.sampler.stopSampling(s)
	err := s.log.Close()
	if closeErr := s.ring.Close(); err == nil {
		err = closeErr
	}
	return err
}

// setAside gives up a ring that can no longer be trusted. It notes in the log which rows the
// drainer has not read.
func (s *source) setAside(w *worker, reason error) {
	for i := range s.places {
		p := &s.places[i]
		next := s.log.Next(s.kind, i)
		if !s.synced || s.header.Policy == channel.Overwrite || p.tail/s.per <= next {
			continue
		}
		drop := logstore.Drop{Reason: uint64(logstore.Unread), At: next, Count: p.tail/s.per - next}
		if s.appendDrop(w, i, drop) != nil {
			break // the log cannot be written either: report only reason
		}
		s.count(func(c *RingStats) { c.Unread += drop.Count })
	}
	s.log.Seal()
	s.closeRing(w)
	s.d.setAside(s, reason)
}
