package drain

import (
	"errors"

	"github.com/cloudprofiler/cloudprofiler/channel"
)

// Snapshot writes down what flight recorders hold: the last records of channels with policy overwrite. match chooses
// channels; nil is all. What an earlier snapshot has written is not written again.
func (d *Drainer) Snapshot(match func(channel.Name) bool) error {
	// What programs ask for from here on is not answered by this.
	err := d.each(func(_ *worker, s *source) (bool, error) {
		n, _, err := s.ring.Asked()
		s.asked = n
		return false, err
	})
	err = errors.Join(err, d.each(func(w *worker, s *source) (gone bool, err error) {
		if s.header.Policy != channel.Overwrite || match != nil && !match(s.header.Name) {
			return false, nil
		}
		if s.look(w, true) {
			return true, s.left()
		}
		err = s.dump(w)
		var failure logFailure
		if err != nil && !errors.As(err, &failure) {
			s.setAside(w, err)
			return true, err
		}
		return false, err
	}))
	if match != nil {
		return err
	}
	return errors.Join(err, d.each(func(_ *worker, s *source) (bool, error) {
		if s.asked == 0 {
			return false, nil
		}
		return false, s.ring.Answered(s.asked)
	}))
}

// runSnapshots takes snapshots that programs ask for.
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
		case <-d.closing: // which ends it as well
		default:
			if err != nil {
				d.notify(err)
			}
		}
	}
}

// wantsSnapshot looks whether the program has asked for one.
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
