package ring

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"unsafe"

	"github.com/cloudprofiler/cloudprofiler/internal/reexec"
)

func alive(t *testing.T, r *Reader) bool {
	t.Helper()
	a, err := r.Alive()
	must(t, err)
	return a
}

func TestARingLivesUntilItsOwnerIsKilled(t *testing.T) {
	c := start(t, "owner", t.TempDir())
	r := look(t, c.readyLine)
	if r.Header().ProcessID != c.Process.Pid {
		t.Errorf("process id %d, want %d", r.Header().ProcessID, c.Process.Pid)
	}
	if !alive(t, r) {
		t.Fatal("dead before its time")
	}
	c.kill(t)
	if alive(t, r) {
		t.Error("the owner was killed, and the ring lives")
	}
	if records, _, _ := copyAll(t, r, 0, 0); len(records) != 1 {
		t.Errorf("%d records", len(records))
	}
}

func TestAChildOfTheOwnerKeepsNoRingAlive(t *testing.T) {
	c := start(t, "parent", t.TempDir())
	path, pid, _ := strings.Cut(c.readyLine, " ")
	grandchild, err := strconv.Atoi(pid)
	must(t, err)
	r := look(t, path)
	if !alive(t, r) {
		t.Fatal("dead before its time")
	}
	c.kill(t)
	if alive(t, r) {
		t.Error("the owner was killed, and the ring lives")
	}
	if err := syscall.Kill(grandchild, 0); err != nil {
		t.Errorf("the owner's child should have outlived it: %v", err)
	}
}

// Readers in the owner's process do not release the owner's lock. A POSIX lock would be gone as
// soon as the first reader closed the file.
func TestReadersInTheOwnersProcessTakeNoLock(t *testing.T) {
	p := newRing(t)
	for range 3 {
		r, err := Open(p.Path)
		must(t, err)
		if !alive(t, r) {
			t.Fatal("the lock is lost")
		}
		must(t, r.Close())
		c, err := OpenConsumer(p.Path)
		must(t, err)
		must(t, c.Close())
		if _, err := os.ReadFile(p.Path); err != nil {
			t.Fatal(err)
		}
	}
	r := look(t, p.Path)
	if !alive(t, r) {
		t.Error("the lock is lost")
	}
	must(t, p.Close())
	if alive(t, r) {
		t.Error("a closed ring lives")
	}
	if s, err := r.State(0); err != nil || s.Flags != FlagClosed {
		t.Errorf("%+v, %v", s, err)
	}
	must(t, p.Close())
}

// Process ids repeat, so only the lock decides whether a program is alive.
func TestTheProcessIDSaysNothing(t *testing.T) {
	dir := t.TempDir()
	p := newRingIn(t, dir, 1)
	image, err := os.ReadFile(p.Path)
	must(t, err)
	orphan := filepath.Join(dir, "copy.ring")
	writeFile(t, orphan, image) // names this living process, which does not hold the file's lock
	r := look(t, orphan)
	if r.Header().ProcessID != os.Getpid() || alive(t, r) {
		t.Errorf("process %d, alive %v", r.Header().ProcessID, alive(t, r))
	}
	c := start(t, "idle", dir)
	c.kill(t)
	p.header.identity.pid = uint32(c.Process.Pid) // the ring now names a dead process
	p.header.identity.checksum = p.header.identity.sum()
	if r := look(t, p.Path); r.Header().ProcessID != c.Process.Pid || !alive(t, r) {
		t.Errorf("process %d, alive %v", r.Header().ProcessID, alive(t, r))
	}
}

// A program that refers only to a ring's shard still owns the ring after a garbage collection. A
// drainer that has no reference to its DirectoryLock still owns its directory.
func TestGarbageCollectionEndsNoRing(t *testing.T) {
	dir := t.TempDir()
	c := start(t, "forgetful", dir)
	if !alive(t, look(t, c.readyLine)) {
		t.Error("the ring was given up")
	}
	if _, err := LockDirectory(dir); !errors.Is(err, ErrLocked) {
		t.Errorf("the directory's lock was given up: %v", err)
	}
}

func TestLockDirectory(t *testing.T) {
	dir := t.TempDir()
	l, err := LockDirectory(dir)
	must(t, err)
	if _, err := LockDirectory(dir); !errors.Is(err, ErrLocked) {
		t.Errorf("locked twice in one process: %v", err)
	}
	must(t, l.Close())
	c := start(t, "drainer", dir)
	_, err = LockDirectory(dir)
	if !errors.Is(err, ErrLocked) || !strings.Contains(err.Error(), "another process drains it") {
		t.Errorf("locked twice: %v", err)
	}
	c.kill(t)
	l, err = LockDirectory(dir)
	must(t, err)
	must(t, l.Close())
	if _, err := LockDirectory(filepath.Join(dir, "none")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a directory that is not there: %v", err)
	}
}

func TestRemove(t *testing.T) {
	p := newRing(t)
	c := drain(t, p.Path)
	aside := p.Path + ".aside"
	must(t, os.Rename(p.Path, aside))
	if err := c.Remove(); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("no file: %v", err)
	}
	writeFile(t, p.Path, []byte("another"))
	if err := c.Remove(); !errors.Is(err, ErrUntrusted) {
		t.Errorf("another file: %v", err)
	}
	must(t, os.Rename(aside, p.Path))
	must(t, c.Remove())
	if files, err := Files(filepath.Dir(p.Path)); err != nil || len(files) != 0 {
		t.Errorf("left: %v, %v", files, err)
	}
	putRecords(&p.Shards[0], 1, 1) // the program's mapping stays
	if records, _, _ := copyAll(t, &c.Reader, 0, 0); len(records) != 1 {
		t.Errorf("%d records", len(records))
	}
}

// If whole pages vanish under a reader, the reader returns an error, and the process lives.
func TestAFileThatShrinks(t *testing.T) {
	needFaultAddresses(t)
	const records = 1 << 14
	for name, try := range map[string]func(c *Consumer) error{
		"State": func(c *Consumer) error { _, err := c.State(0); return err },
		"Copy": func(c *Consumer) error {
			_, _, _, err := c.Copy(0, 0, make([]Record, records))
			return err
		},
		"Drops":        func(c *Consumer) error { _, _, err := c.Drops(0); return err },
		"Journal":      func(c *Consumer) error { _, _, err := c.Journal(0); return err },
		"Counted":      func(c *Consumer) error { _, err := c.Counted(); return err },
		"FirstAndLast": func(c *Consumer) error { _, err := c.FirstAndLast(); return err },
		"Settings":     func(c *Consumer) error { _, _, err := c.Settings(); return err },
		"Release":      func(c *Consumer) error { return c.Release(0, 1, 0, 0) },
		"Apply":        func(c *Consumer) error { _, err := c.Apply(settingsOf(1)); return err },
	} {
		p := newRing(t, size(records))
		for i := range uint64(records) {
			putRecords(&p.Shards[0], i, i)
		}
		c := drain(t, p.Path)
		must(t, p.Close())
		if name == "Copy" { // the shard's page stays, and so do some of the records
			must(t, os.Truncate(p.Path, int64(recordsOffset(1)+pageSize()*2)))
		} else {
			must(t, os.Truncate(p.Path, 0))
		}
		if err := try(c); !errors.Is(err, ErrShrunk) {
			t.Errorf("%s: %v", name, err)
		}
		if _, err := c.Alive(); err != nil {
			t.Errorf("%s, then Alive: %v", name, err)
		}
		must(t, c.Close())
		if _, err := Open(p.Path); !errors.Is(err, ErrDamaged) {
			t.Errorf("%s, then Open: %v", name, err)
		}
	}
}

// If somebody cuts a file during a copy, the reader returns an error.
func TestAFileThatShrinksMeanwhile(t *testing.T) {
	needFaultAddresses(t)
	const records = 1 << 14
	p := newRing(t, size(records))
	for i := range uint64(records) {
		putRecords(&p.Shards[0], i, i)
	}
	c := drain(t, p.Path)
	must(t, p.Close())
	cut := make(chan error)
	go func() { cut <- os.Truncate(p.Path, int64(recordsOffset(1))) }()
	into := make([]Record, records)
	for {
		_, n, _, err := c.Copy(0, 0, into)
		if err == nil && n == records {
			continue
		}
		if !errors.Is(err, ErrShrunk) {
			t.Errorf("%d records, %v", n, err)
		}
		break
	}
	must(t, <-cut)
}

// needFaultAddresses skips the test on an emulator that does not give the address of a fault. guard
// needs the address to distinguish a fault in the mapping from a nil pointer.
func needFaultAddresses(t *testing.T) {
	t.Helper()
	if os.Getenv(reexec.EmulatorVariable) != "" {
		t.Skip("the emulator says of no bus error where it was")
	}
}

func TestGuardLetsOtherPanicsThrough(t *testing.T) {
	defer func() {
		if recover() == nil {
			t.Error("a defect was taken for a shrunk file")
		}
	}()
	var nothing *Record
	guard(func() { nothing.Counter = 1 })
}

func TestShardsShareNoLines(t *testing.T) {
	if n := unsafe.Sizeof(Shard{}); n%128 != 0 {
		t.Errorf("a shard has %d bytes", n)
	}
}

func pageSize() int { return os.Getpagesize() }

// Once Boot has got the id, it returns the id even if no descriptor is left. If Boot could not get
// the id, the next call asks again.
func TestBootIsAskedUntilItIsKnown(t *testing.T) {
	said := strings.Fields(start(t, "boot", t.TempDir()).readyLine)
	want := fmt.Sprintf("%x", Boot())
	if len(said) != 3 || said[0] != fmt.Sprintf("%x", [16]byte{}) || said[1] != want ||
		said[2] != want {
		t.Errorf("without a descriptor, with one, and without one again: %q, want %q", said, want)
	}
}
