package drain

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"golang.org/x/sys/unix"

	"github.com/cloudprofiler/cloudprofiler/ring"
)

// ErrProcess is the error that Options.Notify and Stats report if a process has more rings than
// Options allows.
var ErrProcess = errors.New("process has too many rings")

// ProcessStats is the number and size of the rings that name one process.
type ProcessStats struct {
	PIDNamespace uint64 // the namespace in which the process id is valid; 0: unknown
	ProcessID    int    // 0: rings that name a false process; -1: rings of ended processes
	Rings        int
	RingBytes    int64 // bytes of shared memory in these rings
}

// process identifies a process, even if processes in several containers have the same id.
type process struct {
	namespace uint64
	id        int
}

// A ring whose process is not known gets one of these two ids. unknownProcess: the process that the
// ring's header names does not have the ring open. hasEnded: the program that made the ring had
// already ended when the drainer checked. In a namespace, all rings with the id hasEnded are
// counted together, because nobody can find out to which ended process each ring belonged. This
// does little harm, because these rings will be drained soon.
const (
	unknownProcess = 0
	hasEnded       = -1
)

func processOf(h ring.Header) process { return process{h.PIDNamespace, h.ProcessID} }

func (p process) String() string {
	switch {
	case p.id == unknownProcess:
		return "a process that says it is another"
	case p.id == hasEnded:
		return "a process that has ended"
	}
	if p.namespace == 0 {
		return fmt.Sprintf("process %d", p.id)
	}
	return fmt.Sprintf("process %d of PID namespace %d", p.id, p.namespace)
}

// ringCounts has, for each process, the number and size of its rings that are drained.
type ringCounts map[process]ProcessStats

func (p ringCounts) add(s *source, sign int) {
	whose := s.process
	one := p[whose]
	one.PIDNamespace, one.ProcessID = whose.namespace, whose.id
	one.Rings += sign
	one.RingBytes += int64(sign) * s.header.FileBytes()
	if one.Rings == 0 {
		delete(p, whose)
		return
	}
	p[whose] = one
}

// refusal is an error about a ring: there is no room for it, or its process has too many rings.
type refusal struct {
	process process
	bytes   int64
	error
}

func (r *refusal) Unwrap() error { return r.error }

// admitRing returns a refusal if a process may not have another ring of this size, or if there is
// no room.
func (d *Drainer) admitRing(of process, bytes int64) error {
	d.mu.Lock()
	has, share, full := d.processes[of], d.share, d.checkRoom()
	d.mu.Unlock()
	switch {
	case d.o.MaxProcessRings > 0 && has.Rings >= d.o.MaxProcessRings:
		return &refusal{of, bytes,
			fmt.Errorf("%s has %d rings already, which is the limit for a process: "+
				"close some or raise the limit: %w", of, has.Rings, ErrProcess)}
	case d.o.MaxProcessBytes > 0 && has.RingBytes+bytes > d.o.MaxProcessBytes:
		return &refusal{of, bytes,
			fmt.Errorf("%s has rings of %d bytes already, and %d more are above %d: "+
				"use smaller ones or raise the limit: %w", of, has.RingBytes, bytes,
				d.o.MaxProcessBytes, ErrProcess)}
	case has.Rings >= share:
		return &refusal{of, bytes,
			fmt.Errorf("%s has %d rings already, which is its share of the room: "+
				"close some, or make more room: %s: %w", of, has.Rings, d.room.why, ErrFull)}
	case full != nil:
		return &refusal{of, bytes, full}
	}
	return nil
}

// vouchEvery is the shortest time between two checks of which rings a process really has. The
// drainer makes such a check if the process seems to have too many rings.
const vouchEvery = time.Second

// admitNew does the same as admitRing, for a ring that the drainer has not seen before.
//
// A hostile program could name another process in its rings, to use up the other process's
// allowance. Or it could name a new process in each ring, to get more rings than one process may
// have. So if there is little room, or if the drainer knows of a false ring, it checks whether the
// named process has the ring open. If a process seems to have too many rings, all of them are
// checked. Rings that the process does not have open no longer count as its rings.
func (d *Drainer) admitNew(s *source) error {
	d.mu.Lock()
	liars := d.processes[process{s.process.namespace, unknownProcess}]
	ask := len(d.sources) >= d.room.rings/2 || liars.Rings > 0
	d.mu.Unlock()
	if alive, err := s.ring.Alive(); err == nil && !alive {
		s.process.id = hasEnded
	} else if ask {
		d.checkProcesses([]*source{s})
	}
	err := d.admitRing(s.process, s.header.FileBytes())
	if err == nil || d.now() < d.nextVouch {
		return err
	}
	d.nextVouch = d.now() + vouchEvery
	all := []*source{s}
	d.mu.Lock()
	for _, one := range d.sources {
		if one.process == s.process {
			all = append(all, one)
		}
	}
	d.mu.Unlock()
	d.checkProcesses(all)
	return d.admitRing(s.process, s.header.FileBytes())
}

// checkProcesses gets rings that all name the same process. It checks which of these rings the
// process has open. The other rings get the id unknownProcess or hasEnded.
func (d *Drainer) checkProcesses(all []*source) {
	whose := all[0].process
	files, asked := d.files[whose]
	if !asked {
		files.open, files.known = filesOf(whose)
		d.files[whose] = files
	}
	if !files.known {
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, one := range all {
		if files.open[one.file] {
			continue
		}
		taken := d.sources[one.ring.Path()] == one
		if taken {
			d.processes.add(one, -1)
		}
		one.process.id = unknownProcess
		if alive, err := one.ring.Alive(); err == nil && !alive {
			one.process.id = hasEnded
		}
		if taken {
			d.processes.add(one, 1)
		}
	}
}

// processFiles is the set of files that a process has open, if the drainer can find out.
type processFiles struct {
	open  map[ring.FileID]bool
	known bool
}

// filesOf returns the files that a process has open, according to the kernel. known is false for a
// process in another namespace, and for a process that this user may not inspect.
func filesOf(p process) (open map[ring.FileID]bool, known bool) {
	var own unix.Stat_t
	if err := unix.Stat("/proc/self/ns/pid", &own); err != nil || own.Ino != p.namespace {
		return nil, false
	}
	dir := filepath.Join("/proc", strconv.Itoa(p.id), "fd")
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, true // the process has ended, or never existed
	}
	if err != nil {
		return nil, false
	}
	open = map[ring.FileID]bool{}
	for _, e := range entries {
		var st unix.Stat_t
		if unix.Stat(filepath.Join(dir, e.Name()), &st) == nil {
			open[ring.FileID{Device: uint64(st.Dev), Inode: st.Ino}] = true
		}
	}
	return open, true
}
