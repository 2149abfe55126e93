package drain

import (
	"errors"
	"fmt"
)

// keepLock reports whether this drainer still has the directory's lock. Somebody may remove the
// directory or the lock file, as systemd does at a logout. Then keepLock locks again. If another
// drainer was first, this drainer gives up the rings that the other can find, as if this one had
// died. It drains them again when the other has ended. The caller has locked d.scanning.
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
		d.notify(fmt.Errorf("ring directory %q is this drainer's again", d.dir))
	case err != nil && before == nil:
		d.notify(fmt.Errorf("drain no more until this passes: %w", err))
		d.letGo()
	}
	return err == nil
}

// letGo gives up the rings that still have their names. It keeps the others, because no other
// drainer can find them. When the directory is this drainer's again, it finds the rings like a
// drainer that starts: their logs may have been begun before.
func (d *Drainer) letGo() {
	d.begun = false
	clear(d.later) // the other drainer may begin the logs of these rings
	for _, w := range d.workers {
		w.call(func() {
			w.takeIn()
			kept := w.sources[:0]
			for _, s := range w.sources {
				if named, err := s.ring.Named(); err != nil || !named {
					kept = append(kept, s)
					continue
				}
				d.let(s, s.leave(w))
			}
			clear(w.sources[len(kept):])
			w.sources = kept
		})
	}
}

// let notes that a ring now belongs to another drainer, or is not drained for a while.
func (d *Drainer) let(s *source, err error) {
	c := s.snapshot()
	c.Dropped = 0 // the ring itself keeps this count
	d.mu.Lock()
	delete(d.sources, c.Path)
	d.logsOf[c.Path] = s.dir
	d.processes.add(s, -1)
	d.mapped -= s.header.MappedBytes()
	d.ended.add(&c)
	d.mu.Unlock()
	if err != nil {
		d.notify(errors.Join(fmt.Errorf("let go of ring %q", c.Path), err))
	}
}
