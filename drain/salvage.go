package drain

import (
	"errors"
	"fmt"
	"time"

	"github.com/cloudprofiler/cloudprofiler/ring"
)

// ErrAlive is returned for a ring that a program has open.
var ErrAlive = errors.New("ring is in use")

// Salvaged is the result of Salvage for one ring.
type Salvaged struct {
	Path  string
	Stats RingStats
	Err   error // if Err is not nil, the ring stays where it is
}

// Salvage moves the content of some rings of dead programs into logs in Options.Logs, and removes
// the rings. A Drainer does the same continuously for a whole directory.
//
// If Options.Logs has a log of the ring, Salvage continues that log. If not, Salvage begins a log.
// A drainer may have taken rows from the ring earlier, and the new log says that these rows are
// missing. Salvage does not change the ring of a living program: the Err of its Salvaged wraps
// ErrAlive. If another process drains the directory, Salvage itself returns an error that wraps
// ring.ErrLocked.
func Salvage(dir string, paths []string, o Options) ([]Salvaged, error) {
	begin := time.Now()
	o.Workers = 1
	d, err := newDrainer(dir, o, func() time.Duration { return time.Since(begin) })
	if err != nil {
		return nil, fmt.Errorf("salvage rings: %w", err)
	}
	defer d.lock.Close()
	logs, err := d.listLogs()
	if err != nil {
		return nil, fmt.Errorf("salvage rings: %w", err)
	}
	var all []Salvaged
	for _, path := range paths {
		one := Salvaged{Path: path}
		if one.Stats, one.Err = d.salvage(path, logs); one.Err != nil {
			one.Err = fmt.Errorf("salvage ring %q: %w", path, one.Err)
		}
		all = append(all, one)
	}
	return all, nil
}

func (d *Drainer) salvage(path string, logs segmentLists) (RingStats, error) {
	if err := checkDead(path); err != nil {
		return RingStats{}, err
	}
	s, err := d.open(path, logs, false)
	if err != nil {
		return RingStats{}, err
	}
	w := d.workers[0]
	w.now = d.now()
	for s.more = true; s.more && err == nil; {
		_, err = s.drainRing(w, flushAll) // also closes s when the ring is empty
	}
	switch causeOf(err) {
	case untrustedRing:
		s.setAside(w, err)
	case ofLog, temporaryError:
		s.closeRing(w)
	}
	return s.ringStats(), err
}

func checkDead(path string) error {
	r, err := ring.Open(path)
	if err != nil {
		return err
	}
	alive, err := r.Alive()
	if err == nil && alive {
		err = ErrAlive
	}
	return errors.Join(err, r.Close())
}
