package drain

import (
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"github.com/cloudprofiler/cloudprofiler/handlertable"
	"github.com/cloudprofiler/cloudprofiler/ring"
)

// Drainer drains a directory of rings. Any goroutine may call its methods.
type Drainer struct {
	dir     string
	o       Options
	lock    *ring.DirectoryLock
	workers []*worker
	sampler sampler
	sample  sampleState
	room    capacity
	table   atomic.Pointer[handlertable.Table]
	logs    atomic.Pointer[string] // the log directory
	limits  storageLimits
	now     func() time.Duration // the time since a fixed moment
	closing chan struct{}
	came    newFiles
	moved   atomic.Bool   // true if the name dir leads to a directory other than the watched one
	asked   chan struct{} // receives a value if a program wants a snapshot
	running sync.WaitGroup

	scanning  sync.Mutex // protects the fields of this group
	watcher   *handlertable.Watcher
	nextVouch time.Duration            // when to check again which rings a process has open
	files     map[process]processFiles // what processes have open, as found during this scan
	dirTime   unix.Timespec            // when the directory had changed, as of the last reading
	nextRead  time.Duration
	nextTable time.Duration
	parts     map[string]time.Duration // unfinished rings, by path: when first seen
	later     map[string]postponedRing // rings that could not be opened, by path
	soon      map[string]bool          // rings in later that may soon have room
	// directoryRead is true once the directory was read. Rings that the drainer finds from then on
	// are new.
	directoryRead bool

	once     sync.Once
	closeErr error

	mu         sync.Mutex // protects the fields below it
	sources    map[string]*source
	processes  ringCounts
	share      int                   // largest number of rings of a process; MaxInt: enough room
	logsOf     map[string]string     // log directories of given-up rings, by ring path
	mapped     int64                 // bytes of the open rings
	aside      map[string]*RingStats // set-aside rings, by path; nil: only counted
	leaving    map[process]int       // rings left undrained since the last full scan
	leavingWhy error                 // why the first ring in leaving is not drained
	leftAlone  int                   // Stats.Left: rings that are not drained
	leftWhy    error
	ended      Totals // sums over rings that the drainer no longer drains
	finished   uint64
	tableError error
	lostLock   error // why this drainer no longer has the directory's lock
	closeErrs  []error
}

// Start begins to drain a directory. If the directory does not exist, Start creates it. The error
// wraps ring.ErrLocked if another process drains the directory.
func Start(dir string, o Options) (*Drainer, error) {
	begin := time.Now()
	d, err := newDrainer(dir, o, func() time.Duration { return time.Since(begin) })
	if err != nil {
		return nil, fmt.Errorf("start drainer: %w", err)
	}
	for _, w := range d.workers {
		d.running.Go(w.runPasses)
	}
	d.running.Go(d.runScans)
	d.running.Go(d.runSweeps)
	d.running.Go(d.runSnapshots)
	return d, nil
}

// newDrainer makes a drainer without starting its goroutines.
func newDrainer(dir string, o Options, now func() time.Duration) (*Drainer, error) {
	o, err := o.normalise()
	if err != nil {
		return nil, err
	}
	d := &Drainer{
		dir: dir, o: o, now: now, closing: make(chan struct{}), asked: make(chan struct{}, 1),
		came:    newFiles{some: make(chan struct{}, 1)},
		sampler: sampler{changed: make(chan struct{}, 1)},
		parts:   map[string]time.Duration{}, later: map[string]postponedRing{},
		soon: map[string]bool{}, files: map[process]processFiles{}, leaving: map[process]int{},
		share:  math.MaxInt,
		logsOf: map[string]string{}, sources: map[string]*source{}, processes: ringCounts{},
		aside: map[string]*RingStats{},
	}
	d.table.Store(o.Table)
	d.logs.Store(&o.Logs)
	d.limits.free = freeShare
	d.limits.set(o.MaxBytes, o.MinFree)
	if o.TableFile != "" {
		if d.watcher, err = handlertable.Watch(o.TableFile); err != nil {
			return nil, err
		}
		d.table.Store(d.watcher.Table())
	}
	if err := ring.MakeDirectory(dir); err != nil {
		return nil, err
	}
	if err := makeLogs(o.Logs); err != nil {
		return nil, err
	}
	d.limits.useDirectory(o.Logs)
	if d.room, err = systemCapacity(); err != nil {
		return nil, err
	}
	if d.lock, err = ring.LockDirectory(dir); err != nil {
		return nil, err
	}
	for range o.Workers {
		d.workers = append(d.workers, newWorker(d))
	}
	return d, nil
}

func (d *Drainer) notify(err error) {
	if d.o.Notify != nil {
		d.o.Notify(err)
	}
}

// SetTable makes the drainer apply another handler table. After the call, the caller must not
// change the table. If the table is nil, all settings stay as they are. If Options.TableFile is
// set, the next version of that file replaces this table.
func (d *Drainer) SetTable(t *handlertable.Table) error {
	if t != nil {
		if err := t.Validate(); err != nil {
			return err
		}
	}
	d.table.Store(t)
	return nil
}

// scan reads the directory if the directory may have changed. From time to time, it also reads the
// table's file.
func (d *Drainer) scan(now time.Duration) {
	d.scanning.Lock()
	defer d.scanning.Unlock()
	if d.watcher != nil && now >= d.nextTable {
		d.nextTable = now + tablePoll
		d.readTable()
	}
	// A directory's modification time changes whenever a file is added or removed, except within
	// one tick of the kernel's clock. So a directory that seems unchanged is read again after
	// rescanEvery.
	var st unix.Stat_t
	err := unix.Stat(d.dir, &st)
	if err == nil && st.Mtim == d.dirTime && now < d.nextRead {
		return
	}
	d.dirTime, d.nextRead = st.Mtim, now+rescanEvery
	d.readDirectory(now)
}

// rescan finds the rings that are in the directory now.
func (d *Drainer) rescan() {
	d.scanning.Lock()
	defer d.scanning.Unlock()
	d.readDirectory(d.now())
}

func (d *Drainer) readDirectory(now time.Duration) {
	if !d.keepLock() {
		return
	}
	d.mu.Lock()
	clear(d.leaving)
	d.leavingWhy = nil
	d.mu.Unlock()
	d.came.takeNames() // the directory's entries, read below, include these
	entries, err := os.ReadDir(d.dir)
	if err != nil {
		return // the directory is gone: continue to drain the open rings
	}
	seen := make(map[string]bool, len(entries))
	// If there are new rings, list all logs once for all of them.
	logs := sync.OnceValues(d.listLogs)
	for i, e := range entries {
		if i%arrivedEvery == arrivedEvery-1 {
			paths, _ := d.findArrived(now)
			for _, path := range paths {
				seen[path] = true
			}
		}
		path := filepath.Join(d.dir, e.Name())
		if seen[path] {
			continue
		}
		seen[path] = true
		switch {
		case strings.HasSuffix(path, ".ring"):
			d.startRing(path, now, logs)
		case strings.HasSuffix(path, ".ring.part"):
			d.findPart(path, now)
		}
	}
	d.directoryRead = true
	clear(d.files)
	d.reportPostponed()
	d.forgetFiles(seen)
}

func (d *Drainer) readTable() {
	changed, err := d.watcher.Look()
	if changed {
		d.table.Store(d.watcher.Table())
	}
	d.mu.Lock()
	news := err != nil && (d.tableError == nil || d.tableError.Error() != err.Error())
	d.tableError = err
	d.mu.Unlock()
	if news {
		d.notify(err)
	}
}

// startRing begins to drain a ring, unless the ring is known or must wait.
func (d *Drainer) startRing(path string, now time.Duration, list func() (segmentLists, error)) {
	d.mu.Lock()
	_, aside := d.aside[path]
	known, dir := d.sources[path] != nil || aside, d.logsOf[path]
	d.mu.Unlock()
	before, again := d.later[path]
	isNew := d.directoryRead
	if again {
		isNew = before.isNew
	}
	switch {
	case known:
		return
	case again && now < before.again:
		if before.why != nil {
			d.notePostponed(before.process, before.why)
		}
		return
	case again && before.why != nil:
		// Open the ring only if there is room for it, or in order to check which rings its process
		// really has (admitNew).
		why := d.admitRing(before.process, before.bytes)
		if why != nil && (errors.Is(why, ErrFull) || now < d.nextVouch) {
			before.again, before.why = now+time.Second, why
			d.later[path] = before
			d.notePostponed(before.process, why)
			return
		}
	}
	logs, err := list()
	if err == nil && dir != "" {
		logs, err = logs.withDirectory(dir)
	}
	var s *source
	if err != nil {
		err = logFailure{err}
	} else if s, err = d.open(path, logs, isNew); causeOf(err) == ofLog {
		isNew = false // this drainer may have begun the ring's log just now
	}
	switch of := causeOf(err); {
	case of == none:
		delete(d.later, path)
	case of == temporaryError && errors.Is(err, fs.ErrNotExist):
		return // somebody has removed the ring in the meantime
	case of == untrustedRing:
		d.setAside(&source{stats: RingStats{Path: path}}, err)
		return
	default:
		// There is no room for the ring, the system has too many open files or no memory, or a log
		// cannot be read: try again later.
		p := postponedRing{again: now + time.Second, isNew: isNew}
		if refused, ok := errors.AsType[*refusal](err); ok {
			p.process, p.bytes, p.why = refused.process, refused.bytes, err
			d.notePostponed(refused.process, err)
			if !again && len(d.soon) < maxSoon {
				d.soon[path] = true
			}
		} else if !again {
			d.notify(fmt.Errorf("drain ring %q: %w", path, err))
		}
		d.later[path] = p
		d.nextRead = 0
		return
	}
	d.mu.Lock()
	d.sources[path] = s
	delete(d.logsOf, path)
	d.processes.add(s, 1)
	d.mapped += s.header.MappedBytes()
	w := d.workers[len(d.sources)%len(d.workers)]
	d.mu.Unlock()
	w.giveRing(s)
}

// findPart removes an unfinished ring if its program has died.
func (d *Drainer) findPart(path string, now time.Duration) {
	since, again := d.parts[path]
	if !again {
		d.parts[path] = now
		return
	}
	// A program locks the file directly after it creates the file. Do not lock the file before the
	// program does.
	if now-since < partAge {
		return
	}
	lock, err := ring.OpenLocked(path)
	if err != nil {
		return
	}
	os.Remove(path)
	lock.Close()
}

// forgetFiles deletes the state of files that no longer exist. Open rings are still drained.
func (d *Drainer) forgetFiles(seen map[string]bool) {
	for path := range d.parts {
		if !seen[path] {
			delete(d.parts, path)
		}
	}
	for path := range d.later {
		if !seen[path] {
			delete(d.later, path)
		}
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	for path := range d.logsOf {
		if !seen[path] {
			delete(d.logsOf, path)
		}
	}
	for path, c := range d.aside {
		if !seen[path] {
			if c != nil {
				d.ended.add(c)
			}
			delete(d.aside, path)
		}
	}
}

// setAside notes that a ring must not be drained, and removes its source, if there is one.
func (d *Drainer) setAside(s *source, reason error) {
	s.count(func(c *RingStats) { c.SetAside = reason })
	c := s.ringStats()
	d.mu.Lock()
	delete(d.sources, c.Path)
	n := len(d.aside)
	if n < maxAside {
		d.aside[c.Path] = &c
	} else {
		d.aside[c.Path] = nil
		d.ended.add(&c)
	}
	d.mu.Unlock()
	if n < maxAside {
		d.notify(fmt.Errorf("set aside ring: %w", reason))
	}
	if n == maxAside {
		d.notify(fmt.Errorf("set aside ring: %d are set aside already, others are only counted: %w",
			n, reason))
	}
}

// remove removes a ring after its log is complete. When the file is gone, Stats already counts the
// ring as finished.
func (d *Drainer) remove(s *source) error {
	c := s.ringStats()
	d.sample.keepSample(s)
	d.mu.Lock()
	defer d.mu.Unlock()
	if err := s.ring.Remove(); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	delete(d.sources, c.Path)
	d.ended.add(&c)
	d.finished++
	return nil
}

// freeRoom gives the room of a source back, after its ring was removed or set aside.
func (d *Drainer) freeRoom(s *source) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.processes.add(s, -1)
	d.mapped -= s.header.MappedBytes()
}

// noteClosed notes the error, if any, with which the draining of a source ended.
func (d *Drainer) noteClosed(s *source, err error) {
	if err == nil {
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.closeErrs = append(d.closeErrs, fmt.Errorf("drain ring %q: %w", s.ring.Path(), err))
}

// drainError returns the error that keeps the drainer from draining the ring completely, or nil.
func (s *source) drainError() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.stats.Failure
}

func (d *Drainer) runSweeps() {
	timer := time.NewTimer(0)
	for {
		select {
		case <-d.closing:
			return
		case <-d.sampler.changed:
		case <-timer.C:
		}
		now := d.now()
		timer.Reset(d.sampler.takeDueSamples(now) - now)
	}
}

// Flush writes the present content of the rings to the logs. The error names the rings that Flush
// could not drain.
func (d *Drainer) Flush() error {
	return d.forEachRing(func(w *worker, s *source) (more, gone bool, err error) {
		gone = s.lookAtRing(w, flushAll)
		return s.more, gone, s.drainError()
	})
}

var errClosed = errors.New("drainer is closed")

// forEachRing makes every worker call the function do for each of its rings, even for rings that
// have just appeared. A worker repeats the call for a ring until the result more is false.
func (d *Drainer) forEachRing(do func(*worker, *source) (more, gone bool, err error)) error {
	select {
	case <-d.closing:
		return errClosed
	default:
	}
	d.rescan()
	var all []error
	for _, w := range d.workers {
		called := w.callBetween(func() {
			w.forEachOwnRing(func(s *source) (more, gone bool) {
				more, gone, err := do(w, s)
				if err != nil && !more {
					all = append(all, fmt.Errorf("drain ring %q: %w", s.ring.Path(), err))
				}
				return more, gone
			})
		})
		if !called {
			all = append(all, errClosed)
		}
	}
	return errors.Join(all...)
}

// Close drains the present content of the rings. It leaves the rings and their logs in a state from
// which another drainer can continue. The error names the rings that Close could not drain.
func (d *Drainer) Close() error {
	d.once.Do(func() {
		d.rescan()
		close(d.closing)
		d.running.Wait()
		for _, w := range d.workers {
			w.leaveIncoming()
		}
		d.closeErr = errors.Join(append(d.closeErrs, d.lock.Close())...)
	})
	return d.closeErr
}
