package drain

import (
	"errors"
	"fmt"
)

// keepLock reports whether this drainer still has the directory. Somebody may remove it, or its
// lock, as systemd does at a logout. Then keepLock takes the lock anew. If another drainer came
// first, this one lets go of the rings that the other can find, as if it had died. It takes them
// back when the other has ended. The caller holds scanning.
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

// letGo leaves the rings that still have their names. Nobody else can find the others. When the
// directory is this drainer's again, it finds the rings like a drainer that starts: with logs that
// were begun before.
func (d *Drainer) letGo() {
	d.begun = false
	clear(d.later) // the other may begin their logs
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

// let notes that a ring is another drainer's now, or is left alone for a while.
func (d *Drainer) let(s *source, err error) {
	c := s.snapshot()
	c.Dropped = 0 // the ring counts on
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
