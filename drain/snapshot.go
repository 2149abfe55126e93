package drain

import (
	"errors"

	"github.com/cloudprofiler/cloudprofiler/channel"
	"github.com/cloudprofiler/cloudprofiler/logstore"
	"github.com/cloudprofiler/cloudprofiler/ring"
)

// Snapshot writes the content of flight recorders: the last records of channels with policy
// overwrite. match selects channels; nil selects all. Records that an earlier snapshot has written
// are not written again.
func (d *Drainer) Snapshot(match func(channel.Name) bool) error {
	// Note the number of requests now. This snapshot does not answer later requests.
	err := d.forEachRing(func(_ *worker, s *source) (more, gone bool, err error) {
		s.asked, _, err = s.ring.Asked()
		return false, false, err
	})
	err = errors.Join(err, d.forEachRing(func(w *worker, s *source) (more, gone bool, err error) {
		if s.header.Policy != channel.Overwrite || match != nil && !match(s.header.Name) {
			return false, false, nil
		}
		if s.lookAtRing(w, flushAll) {
			return false, true, s.drainError()
		}
		err = s.dumpRecorder(w)
		if causeOf(err) == untrustedRing {
			s.setAside(w, err)
			return false, true, err
		}
		return false, false, err
	}))
	if match != nil {
		return err
	}
	return errors.Join(err, d.forEachRing(func(_ *worker, s *source) (more, gone bool, err error) {
		if s.asked == 0 {
			return false, false, nil
		}
		return false, false, s.ring.Answered(s.asked)
	}))
}

// runSnapshots takes the snapshots that programs ask for.
func (d *Drainer) runSnapshots() {
	for {
		select {
		case <-d.closing:
			return
		case <-d.asked:
		}
		if d.o.Asked != nil {
			d.o.Asked()
		}
		err := d.Snapshot(nil)
		select {
		case <-d.closing: // closing also makes Snapshot fail: do not report that
		default:
			if err != nil {
				d.notify(err)
			}
		}
	}
}

// wantsSnapshot tells runSnapshots to take a snapshot if the program has asked for one.
func (s *source) wantsSnapshot() error {
	_, open, err := s.ring.Asked()
	if open {
		select {
		case s.d.asked <- struct{}{}:
		default:
		}
	}
	return err
}

// dumpRecorder writes the records of a flight recorder that are not in the log.
func (s *source) dumpRecorder(w *worker) error {
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
		drop := logstore.Drop{Reason: uint64(logstore.Overwritten), At: p.head / s.per, Count: gone}
		if err := s.appendDrop(w, shard, drop); err != nil {
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
		if err := s.storeRows(w, shard, rows); err != nil {
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
