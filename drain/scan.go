package drain

import (
	"encoding/binary"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

const (
	// After each reading of the directory, and after each search for new rings, the drainer pauses
	// scanPause times as long as that took.
	scanPause = 3

	// While the drainer reads the directory, it checks for new arrivals after every arrivedEvery
	// files.
	arrivedEvery = 1 << 10

	// soonEvery is the time after which the drainer tries again to open rings that had no room, if
	// it is giving up other rings to make room. It tries at most maxSoon of them at once. All
	// others wait until the drainer reads the directory again.
	soonEvery = 50 * time.Millisecond
	maxSoon   = 1 << 10

	// maxArrived is the largest number of names of new files that the drainer keeps. If there are
	// more, it reads the directory instead.
	maxArrived = 1 << 12
)

// runScans looks for new rings whenever the kernel reports one. At regular times it also reads the
// directory and checks for a changed handler table.
func (d *Drainer) runScans() {
	ticker := time.NewTicker(checkPeriod)
	defer ticker.Stop()
	unwatch := func() {}
	watch := func() {
		unwatch()
		stop, every := make(chan struct{}), checkPeriod
		unwatch = sync.OnceFunc(func() { close(stop) })
		if err := d.came.watchDirectory(d.dir, stop); err == nil {
			every = rescanEvery
		}
		if d.watcher != nil {
			every = min(every, tablePoll)
		}
		ticker.Reset(every)
	}
	watch()
	defer func() { unwatch() }()
	// Before readAt the drainer does not read the directory again, and before lookAt it does not
	// search for new rings again.
	var readAt, lookAt time.Duration
	timed := func(do func()) (again time.Duration) {
		begin := d.now()
		do()
		end := d.now()
		return end + scanPause*(end-begin)
	}
	for {
		if d.now() >= readAt {
			readAt = timed(func() { d.scan(d.now()) })
		}
		if d.moved.Swap(false) {
			watch()
			continue // read again, because rings may have arrived before the watch began
		}
		for read := false; !read; {
			if pause := lookAt - d.now(); pause > 0 {
				select {
				case <-d.closing:
					return
				case <-time.After(pause):
				}
			}
			var soon <-chan time.Time
			if d.expectsRoom() {
				soon = time.After(soonEvery)
			}
			select {
			case <-d.closing:
				return
			case <-ticker.C:
				read = true
			case <-d.came.some:
				lookAt = timed(func() { read = !d.scanArrived() })
			case <-soon:
				lookAt = timed(d.scanSoon)
			}
		}
	}
}

// expectsRoom reports whether there may soon be room for some waiting rings.
func (d *Drainer) expectsRoom() bool {
	d.scanning.Lock()
	defer d.scanning.Unlock()
	return len(d.soon) > 0
}

// scanArrived finds the rings that have arrived. It returns false if the whole directory must be
// read to find them.
func (d *Drainer) scanArrived() bool {
	d.scanning.Lock()
	defer d.scanning.Unlock()
	if !d.directoryRead || !d.keepLock() {
		return false
	}
	_, all := d.findArrived(d.now())
	if all {
		d.reportPostponed()
	}
	return all
}

// findArrived begins to drain each ring whose name the kernel has reported since the last call. It
// returns these rings, and whether they are all that arrived. The caller has locked d.scanning.
func (d *Drainer) findArrived(now time.Duration) (paths []string, all bool) {
	names, all := d.came.takeNames()
	logs := sync.OnceValues(d.listLogs)
	clear(d.files)
	for _, name := range names {
		path := filepath.Join(d.dir, name)
		if _, counted := d.later[path]; !counted {
			d.startRing(path, now, logs)
			paths = append(paths, path)
		}
	}
	return paths, all
}

// scanSoon tries again to open rings that had no room, after other rings were given up.
func (d *Drainer) scanSoon() {
	d.scanning.Lock()
	defer d.scanning.Unlock()
	if !d.keepLock() {
		return
	}
	logs, found := sync.OnceValues(d.listLogs), false
	for path := range d.soon {
		p, waits := d.later[path]
		d.mu.Lock()
		waits = waits && d.processes[p.process].Rings < d.share
		full := d.checkRoom()
		if waits && full == nil {
			// Take this ring out of d.leaving. If there is still no room for it, startRing adds it
			// again.
			if d.leaving[p.process]--; d.leaving[p.process] <= 0 {
				delete(d.leaving, p.process)
			}
		}
		d.mu.Unlock()
		switch {
		case !waits:
			delete(d.soon, path)
		case full == nil:
			p.again = 0
			d.later[path] = p
			delete(d.soon, path)
			d.startRing(path, d.now(), logs)
			found = true
		}
	}
	if found {
		d.reportPostponed()
	}
}

// newFiles collects the names of the files that the kernel reports as new in a directory.
type newFiles struct {
	some chan struct{} // contains a value while names wait

	mu    sync.Mutex // protects the fields below it
	names []string
	lost  bool // some names were lost
}

// watchDirectory makes the kernel report files that arrive in a directory, until the channel stop
// is closed. It fails if this user has too many watches.
func (a *newFiles) watchDirectory(dir string, stop <-chan struct{}) error {
	fd, err := unix.InotifyInit1(unix.IN_NONBLOCK | unix.IN_CLOEXEC)
	if err != nil {
		return err
	}
	if _, err := unix.InotifyAddWatch(fd, dir, unix.IN_MOVED_TO|unix.IN_ONLYDIR); err != nil {
		unix.Close(fd)
		return err
	}
	file := os.NewFile(uintptr(fd), "inotify")
	go func() {
		<-stop
		file.Close()
	}()
	go func() {
		buffer := make([]byte, 1<<14)
		for {
			n, err := file.Read(buffer)
			if err != nil {
				return // watchDirectory has closed the descriptor
			}
			a.addEvents(buffer[:n])
		}
	}()
	return nil
}

// addEvents adds the names in events of inotify: see inotify(7).
func (a *newFiles) addEvents(events []byte) {
	const head = unix.SizeofInotifyEvent
	a.mu.Lock()
	for len(events) >= head {
		mask := binary.NativeEndian.Uint32(events[unsafe.Offsetof(unix.InotifyEvent{}.Mask):])
		length := int(binary.NativeEndian.Uint32(events[unsafe.Offsetof(unix.InotifyEvent{}.Len):]))
		name := strings.TrimRight(string(events[head:head+length]), "\x00")
		switch {
		case mask&unix.IN_Q_OVERFLOW != 0 || len(a.names) >= maxArrived:
			a.names, a.lost = nil, true
		case strings.HasSuffix(name, ".ring") && !a.lost:
			a.names = append(a.names, name)
		}
		events = events[head+length:]
	}
	a.mu.Unlock()
	select {
	case a.some <- struct{}{}:
	default:
	}
}

// takeNames returns the names that have arrived since the last call. all is false if some names
// were lost.
func (a *newFiles) takeNames() (names []string, all bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	names, all = a.names, !a.lost
	a.names, a.lost = nil, false
	return names, all
}
