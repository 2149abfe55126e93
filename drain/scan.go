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
	// After each reading of the directory, and each search for new rings, comes a pause of this
	// many times its length.
	scanPause = 3

	// arrivedEvery is the number of files of a directory after which new arrivals are looked for.
	arrivedEvery = 1 << 10

	// Rings for which others yield are tried again after this time, at most this many at once. The
	// others wait until the directory is read again.
	soonEvery = 50 * time.Millisecond
	maxSoon   = 1 << 10

	// maxArrived is how many names of new files are kept. If there are more, the directory is read.
	maxArrived = 1 << 12
)

// runScans looks for rings, and for a changed handler table. It does so when the kernel reports new
// rings, and otherwise now and then.
func (d *Drainer) runScans() {
	ticker := time.NewTicker(tick)
	defer ticker.Stop()
	unwatch := func() {}
	watch := func() {
		unwatch()
		stop, every := make(chan struct{}), tick
		unwatch = sync.OnceFunc(func() { close(stop) })
		if err := d.came.watch(d.dir, stop); err == nil {
			every = rescanEvery
		}
		if d.watcher != nil {
			every = min(every, tablePoll)
		}
		ticker.Reset(every)
	}
	watch()
	defer func() { unwatch() }()
	var readAt, lookAt time.Duration // not before these
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
			continue // arrivals before the watch began
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
			if d.expects() {
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

// expects tells whether some rings may soon have room.
func (d *Drainer) expects() bool {
	d.scanning.Lock()
	defer d.scanning.Unlock()
	return len(d.soon) > 0
}

// scanArrived finds the rings that have arrived. It returns false if that takes reading the whole
// directory.
func (d *Drainer) scanArrived() bool {
	d.scanning.Lock()
	defer d.scanning.Unlock()
	if !d.begun || !d.keepLock() {
		return false
	}
	_, all := d.findArrived(d.now())
	if all {
		d.left()
	}
	return all
}

// findArrived calls find for each ring whose name came since the last time. It returns these rings,
// and whether they are all. The caller holds scanning.
func (d *Drainer) findArrived(now time.Duration) (paths []string, all bool) {
	names, all := d.came.take()
	logs := sync.OnceValues(d.listLogs)
	clear(d.files)
	for _, name := range names {
		path := filepath.Join(d.dir, name)
		if _, counted := d.later[path]; !counted {
			d.find(path, now, logs)
			paths = append(paths, path)
		}
	}
	return paths, all
}

// scanSoon tries the rings again for which others yield.
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
		full := d.full()
		if waits && full == nil {
			// find counts it again if it must
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
			d.find(path, d.now(), logs)
			found = true
		}
	}
	if found {
		d.left()
	}
}

// arrivals are names of rings that have come to a directory, as reported by the kernel.
type arrivals struct {
	some chan struct{} // has a value while there are some

	mu    sync.Mutex // guards all below
	names []string
	lost  bool // some names were lost
}

// watch makes the kernel report what comes to a directory, until stop is closed. It fails if the
// kernel's limits for this user are reached.
func (a *arrivals) watch(dir string, stop <-chan struct{}) error {
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
				return // closed
			}
			a.add(buffer[:n])
		}
	}()
	return nil
}

// add takes events of inotify: see inotify(7).
func (a *arrivals) add(events []byte) {
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

// take returns the names that came since the last time, and whether they are all.
func (a *arrivals) take() (names []string, all bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	names, all = a.names, !a.lost
	a.names, a.lost = nil, false
	return names, all
}
