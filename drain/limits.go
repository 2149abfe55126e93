package drain

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/cloudprofiler/cloudprofiler/logstore"
)

// ErrLimit is the error that Options.Notify and Stats report while the drainer stores no records
// because it has reached a limit.
var ErrLimit = errors.New("limit of the logs is reached")

// storageLimits decides whether the drainer may store more.
type storageLimits struct {
	mu      sync.Mutex // protects the fields below it
	max     int64      // largest number of bytes in the directory; 0: no limit
	minFree float64    // share of the file system that must stay free
	free    func(dir string) (share float64, err error)
	dir     string
	used    int64
	over    error         // why the file system had too little space at the last check, or nil
	said    bool          // the reached limit was reported
	again   time.Duration // the earliest time of the next report
	next    time.Duration // the time of the next check of the file system
}

// limitTick is the time between two checks of the file system's free space. In that time, a drainer
// that writes a gigabyte per second writes a fifth of a gigabyte.
const limitTick = 200 * time.Millisecond

// limitQuiet is the shortest time between two reports of a limit, because the free space of a file
// system may cross a limit again and again.
const limitQuiet = 5 * time.Second

// useDirectory makes dir the directory of the logs, and counts the bytes that are in it already.
func (l *storageLimits) useDirectory(dir string) {
	var used int64
	filepath.WalkDir(dir, func(_ string, e fs.DirEntry, err error) error {
		if err != nil || !e.Type().IsRegular() {
			return nil // not a file, or gone in the meantime, or not readable
		}
		if info, err := e.Info(); err == nil {
			used += info.Size()
		}
		return nil
	})
	l.mu.Lock()
	defer l.mu.Unlock()
	l.dir, l.used, l.next, l.said, l.again = dir, used, 0, false, 0
}

func (l *storageLimits) set(max int64, minFree float64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.max, l.minFree, l.next, l.said, l.again = max, minFree, 0, false, 0
}

func (l *storageLimits) add(bytes int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.used += bytes
}

// checkLimits returns an error that says why the drainer may store nothing more, or nil.
func (l *storageLimits) checkLimits(now time.Duration) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case l.max > 0 && l.used >= l.max:
		return fmt.Errorf("%q holds %d bytes of at most %d: end the run or raise the limit: %w",
			l.dir, l.used, l.max, ErrLimit)
	case l.minFree == 0:
		return nil
	case now < l.next:
		return l.over
	}
	l.next, l.over = now+limitTick, nil
	// If the free space cannot be read, ignore that: a write will fail with the reason.
	if free, err := l.free(l.dir); err == nil && free < l.minFree {
		l.over = fmt.Errorf(
			"the file system of %q has %.1f %% free, %.1f %% are to stay so: make room: %w", l.dir,
			100*free, 100*l.minFree, ErrLimit)
	}
	l.said = l.said && l.over != nil
	return l.over
}

// freeShare returns the share of a directory's file system that is free to this user.
func freeShare(dir string) (float64, error) {
	var st unix.Statfs_t
	if err := unix.Statfs(dir, &st); err != nil || st.Blocks == 0 {
		return 1, err
	}
	return float64(st.Bavail) / float64(st.Blocks), nil
}

// limitReached reports a reached limit once. It reports the limit again if there was room in
// between, or if the directory or the limits have changed.
func (d *Drainer) limitReached(now time.Duration, why error) {
	l := &d.limits
	l.mu.Lock()
	say := !l.said && now >= l.again
	if say {
		l.said, l.again = true, now+limitQuiet
	}
	l.mu.Unlock()
	if say {
		d.notify(fmt.Errorf("store records: %w", why))
	}
}

// SetLimits changes Options.MaxBytes and MinFree.
func (d *Drainer) SetLimits(maxBytes int64, minFree float64) error {
	if maxBytes < 0 || minFree < 0 || minFree >= 1 {
		return fmt.Errorf("set limits of %d bytes and %g free: use 0 or more, and less than 1 free",
			maxBytes, minFree)
	}
	d.limits.set(maxBytes, minFree)
	return nil
}

// Limit returns an error that says why the drainer stores nothing more, or nil.
func (d *Drainer) Limit() error { return d.limits.checkLimits(d.now()) }

// noteSkipped notes rows that the drainer takes from the ring but does not store.
func (s *source) noteSkipped(w *worker, i int, rows uint64, why error) {
	p := &s.places[i]
	if p.skipped == 0 {
		p.skippedAt, p.skippedSince = p.head/s.per, w.now
	}
	p.skipped += rows
	s.count(func(c *RingStats) { c.NotStored += rows; c.Limit = why })
}

// takeSkipped notes in the log how many rows were not stored. The drainer calls it before it writes
// other rows, and from time to time. If the drainer dies before such a call, readers of the log
// still notice that rows are missing, but not why.
func (s *source) takeSkipped(w *worker, i int) error {
	p := &s.places[i]
	if p.skipped == 0 {
		return nil
	}
	drop := logstore.Drop{Reason: uint64(logstore.NotStored), At: p.skippedAt, Count: p.skipped}
	if err := s.appendDrop(w, i, drop); err != nil {
		return err
	}
	p.skipped = 0
	return nil
}
