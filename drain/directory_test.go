package drain

import (
	"errors"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/cloudprofiler/cloudprofiler/handlers"
	"github.com/cloudprofiler/cloudprofiler/internal/testimony"
	"github.com/cloudprofiler/cloudprofiler/ring"
)

// runningDrainer is a running drainer, and the errors that it reported.
type runningDrainer struct {
	*Drainer
	logs string

	mu   sync.Mutex
	said []error
}

func startRunning(t *testing.T, rings string) *runningDrainer {
	t.Helper()
	r := &runningDrainer{logs: filepath.Join(t.TempDir(), "logs")}
	d, err := Start(rings,
		Options{Node: "node-1", Logs: r.logs, Workers: 2, Notify: func(err error) {
			r.mu.Lock()
			defer r.mu.Unlock()
			r.said = append(r.said, err)
		}})
	if err != nil {
		t.Fatal(err)
	}
	r.Drainer = d
	t.Cleanup(func() { d.Close() })
	return r
}

func openIn(t *testing.T, dir, name string) *handlers.Channel {
	t.Helper()
	if err := ring.MakeDirectory(dir); err != nil {
		t.Fatal(err)
	}
	c, err := handlers.Open(name, handlers.Options{Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

func logTo(c *handlers.Channel, from, to uint64) {
	for id := from; id < to; id++ {
		c.Log(id)
	}
}

// A logout removes the directory with everything in it. The drainer still drains open rings, and
// finds new ones.
func TestDirectoryIsRemoved(t *testing.T) {
	rings := filepath.Join(t.TempDir(), "rings")
	r := startRunning(t, rings)
	before := openIn(t, rings, "a/before")
	logTo(before, 0, 100)
	testimony.WaitFor(t, "the ring is found", func() bool { return len(r.Stats().Rings) == 1 })
	if err := os.RemoveAll(rings); err != nil {
		t.Fatal(err)
	}
	logTo(before, 100, 200)
	after := openIn(t, rings, "a/after")
	logTo(after, 0, 100)
	testimony.WaitFor(t, "the new ring is found", func() bool { return len(r.Stats().Rings) == 2 })
	testimony.WaitFor(t, "the directory is locked", func() bool {
		l, err := ring.LockDirectory(rings)
		if err == nil {
			l.Close()
		}
		return errors.Is(err, ring.ErrLocked)
	})
	before.Close()
	after.Close()
	testimony.WaitFor(t, "both have ended", func() bool { return r.Stats().Finished == 2 })
	logs := readLogs(t, r.logs)
	if b, a := logs["a/before"].countRows(), logs["a/after"].countRows(); b != 200 || a != 100 {
		t.Errorf("%d and %d events, want 200 and 100", b, a)
	}
}

// If another drainer locks the directory, this drainer gives up the rings that the other drainer
// finds, and later takes them back.
func TestAnotherDrainerTakesTheDirectory(t *testing.T) {
	rings := filepath.Join(t.TempDir(), "rings")
	r := startRunning(t, rings)
	c := openIn(t, rings, "a/b")
	logTo(c, 0, 100)
	testimony.WaitFor(t, "the ring is found", func() bool { return len(r.Stats().Rings) == 1 })
	if err := r.Flush(); err != nil {
		t.Fatal(err)
	}
	// Remove the lock file again and again, until the test is faster than the drainer. Then the
	// test creates and locks the file, as another drainer would.
	path := filepath.Join(rings, "drainer.lock")
	var other *os.File
	testimony.WaitFor(t, "another has the lock", func() bool {
		if err := os.Remove(path); err != nil {
			t.Fatal(err)
		}
		var err error
		other, err = ring.OpenLocked(path)
		return err == nil
	})
	defer other.Close()
	testimony.WaitFor(t, "this one lets go", func() bool {
		s := r.Stats()
		return s.Lost != nil && len(s.Rings) == 0
	})
	if err := r.Stats().Lost; !errors.Is(err, ring.ErrLocked) {
		t.Error(err)
	}
	logTo(c, 100, 200)
	if err := r.Flush(); err != nil {
		t.Fatal(err)
	}
	if n := readLogs(t, r.logs)["a/b"].countRows(); n != 100 {
		t.Errorf("%d events in the log of a drainer that has let go at 100", n)
	}
	other.Close()
	testimony.WaitFor(t, "this one takes it back", func() bool {
		s := r.Stats()
		return s.Lost == nil && len(s.Rings) == 1
	})
	c.Close()
	testimony.WaitFor(t, "the ring has ended", func() bool { return r.Stats().Finished == 1 })
	if k := readLogs(t, r.logs)["a/b"]; k.countRows() != 200 || len(k.report.Damage) > 0 {
		t.Errorf("%d events, want 200: %+v", k.countRows(), k.report)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.said) != 2 || !errors.Is(r.said[0], ring.ErrLocked) {
		t.Errorf("said %q", r.said)
	}
}
