package drain

import (
	"errors"
	"fmt"
)

// keepLock reports whether this drainer still has the directory's lock. If somebody has removed the
// directory or the lock file, as systemd does at a logout, the drainer locks the directory again.
//
// If another drainer was faster, this drainer gives up the rings that the other drainer can find,
// as if this drainer had died. When the other drainer has ended, this drainer drains those rings
// again. The caller has locked d.scanning.
func (d *Drainer) keepLock() bool {
	fresh, err := d.lock.Keep()
	if fresh {
		d.moved.Store(true)
	}
	d.mu.Lock()
	before := d.lostLock
	d.lostLock = err
	d.mu.Unlock()
	switch {
	case err == nil && before != nil:
		d.notify(fmt.Errorf("this drainer has ring directory %q again", d.dir))
	case err != nil && before == nil:
		d.notify(fmt.Errorf("stop draining until this error is gone: %w", err))
		d.letGo()
	}
	return err == nil
}

// letGo gives up the rings that still have their names. The drainer still drains the other rings,
// because no other drainer can find them. When this drainer gets the directory back, it finds the
// given-up rings again, as a drainer finds rings at its start: they may have logs already.
func (d *Drainer) letGo() {
	d.directoryRead = false
	clear(d.later) // the other drainer may have begun the logs of these rings in the meantime
	for _, w := range d.workers {
		w.callBetween(func() {
			w.takeIn()
			kept := w.sources[:0]
			for _, s := range w.sources {
				if named, err := s.ring.Named(); err != nil || !named {
					kept = append(kept, s)
					continue
				}
				d.releaseSource(s, s.closeRing(w))
			}
			clear(w.sources[len(kept):])
			w.sources = kept
		})
	}
}

// releaseSource removes a source from the drainer, because another drainer now drains the ring, or
// because no drainer will drain it for a while.
func (d *Drainer) releaseSource(s *source, err error) {
	c := s.ringStats()
	c.Dropped = 0 // the ring keeps this count, so the ring's next source reports it again
	d.mu.Lock()
	delete(d.sources, c.Path)
	d.logsOf[c.Path] = s.dir
	d.processes.add(s, -1)
	d.mapped -= s.header.MappedBytes()
	d.ended.add(&c)
	d.mu.Unlock()
	if err != nil {
		d.notify(errors.Join(fmt.Errorf("give up ring %q", c.Path), err))
	}
}
