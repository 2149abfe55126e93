package drain

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/cloudprofiler/cloudprofiler/handlers"
	"github.com/cloudprofiler/cloudprofiler/logstore"
	"github.com/cloudprofiler/cloudprofiler/ring"
)

// copyRing copies a ring's file in its present state.
func copyRing(t *testing.T, from, to string) {
	t.Helper()
	b, err := os.ReadFile(from)
	if err == nil {
		err = os.WriteFile(to, b, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// forgeRecords adds records to a ring with one writer, as any program of the same user can.
func forgeRecords(t *testing.T, path string, records uint64) {
	t.Helper()
	c, err := ring.OpenConsumer(path)
	if err != nil {
		t.Fatal(err)
	}
	state, err := c.State(0)
	if err == nil {
		err = c.Close()
	}
	if err != nil {
		t.Fatal(err)
	}
	patchFile(t, path, atTail, word(state.Tail+records))
}

func asideFor(r *rig, path string) error {
	for _, c := range r.d.Stats().Rings {
		if c.Path == path {
			return c.SetAside
		}
	}
	return nil
}

// A copy of a ring under another name adds nothing to the ring's log. This holds whether the copy
// comes before a drainer starts or while it runs.
func TestACopyBesideItsRing(t *testing.T) {
	for _, restart := range []bool{false, true} {
		r := newRig(t, Options{})
		c := r.open("a/b", handlers.Options{Handler: "id", Policy: "drop", Buffer: "16KiB"})
		var id uint64
		log := func() {
			for range 100 {
				c.Log(id)
				id++
			}
			r.runFor(time.Second)
		}
		log()
		if restart {
			r.killDrainer()
		}
		forged := filepath.Join(r.rings, "a~b.000102030405060708090a0b0c0d0e0f.ring")
		copyRing(t, c.Path(), forged)
		if restart {
			r.startRig(Options{})
		}
		log()
		if err := asideFor(r, forged); !errors.Is(err, ring.ErrUntrusted) {
			t.Errorf("restart %v: the copy is set aside for %v", restart, err)
		}
		log()
		c.Close()
		r.runFor(time.Second)
		if stats := r.d.Stats(); stats.Finished != 1 || len(r.noticed) != 1 {
			t.Errorf("restart %v: %+v, noticed %v", restart, stats, r.noticed)
		}
		k := readLogs(t, r.logs)["a/b"]
		k.checkIntact(t)
		wantIDs(t, k.events[0], id)
	}
}

// If somebody puts a ring back after its log has ended, the ring adds nothing to its log.
func TestARingThatComesBack(t *testing.T) {
	r := newRig(t, Options{})
	c := r.open("a/b", handlers.Options{Handler: "id", Buffer: "16KiB"})
	logMany(c, 0, 100)
	r.runFor(time.Second)
	kept := filepath.Join(t.TempDir(), "copy")
	copyRing(t, c.Path(), kept)
	c.Close()
	r.runFor(time.Second)
	if stats := r.d.Stats(); stats.Finished != 1 {
		t.Fatalf("%+v", stats)
	}
	copyRing(t, kept, c.Path())
	forgeRecords(t, c.Path(), 5)
	r.runFor(2 * time.Second)
	if err := asideFor(r, c.Path()); !errors.Is(err, ring.ErrUntrusted) {
		t.Errorf("it is set aside for %v", err)
	}
	k := readLogs(t, r.logs)["a/b"]
	k.checkIntact(t)
	wantIDs(t, k.events[0], 100)
}

// A log directory that is no longer in use does not change, whatever rings somebody puts back and
// whichever drainer runs.
func TestADirectoryThatWasLeftStaysAsItIs(t *testing.T) {
	for _, ended := range []bool{false, true} {
		r := newRig(t, Options{})
		closed := r.logs
		c := r.open("a/b", handlers.Options{Handler: "id", Buffer: "16KiB"})
		logMany(c, 0, 100)
		r.runFor(time.Second)
		kept := filepath.Join(t.TempDir(), "copy")
		copyRing(t, c.Path(), kept)
		if ended {
			c.Close()
			r.runFor(time.Second)
		}
		r.setLogs(filepath.Join(t.TempDir(), "next"))
		before := contents(t, closed)
		r.killDrainer()
		c.Close()
		os.Remove(c.Path())
		os.RemoveAll(r.d.Logs())
		copyRing(t, kept, c.Path())
		forgeRecords(t, c.Path(), 5)
		r.logs = r.d.Logs()
		r.startRig(Options{Before: []string{closed}})
		r.runFor(2 * time.Second)
		after := contents(t, closed)
		if len(before) == 0 || len(after) != len(before) {
			t.Errorf("ended %v: %d files, and there were %d", ended, len(after), len(before))
		}
		for name, b := range before {
			if !bytes.Equal(after[name], b) {
				t.Errorf("ended %v: %s has changed", ended, name)
			}
		}
	}
}

func contents(t *testing.T, dir string) map[string][]byte {
	t.Helper()
	segments, err := logstore.Segments(dir)
	if err != nil {
		t.Fatal(err)
	}
	all := map[string][]byte{}
	for _, s := range segments {
		if all[filepath.Base(s.Path)], err = os.ReadFile(s.Path); err != nil {
			t.Fatal(err)
		}
	}
	return all
}

// A ring that was there before the drainer started may have a log already. A ring that came later
// must not have a log. If it has one, the drainer sets the ring aside. All this holds even if the
// drainer at first leaves a ring undrained, for any time and for any reason.
func TestARingThatWasLeftAlone(t *testing.T) {
	for name, limit := range map[string]struct {
		o    Options
		room int
	}{"for want of room": {Options{}, 1},
		"as one too many of its process": {Options{MaxProcessRings: 1}, 100}} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, Options{})
			c := r.open("b/c", handlers.Options{Handler: "id", Buffer: "16KiB"})
			logMany(c, 0, 100)
			ended := r.open("b/ended", handlers.Options{Handler: "id", Buffer: "16KiB"})
			logMany(ended, 0, 10)
			r.runFor(time.Second)
			kept := filepath.Join(t.TempDir(), "copy")
			copyRing(t, ended.Path(), kept)
			ended.Close()
			r.runFor(time.Second)
			r.killDrainer()
			first := r.open("a/first", handlers.Options{})
			r.startRig(limit.o)
			r.d.room.rings = limit.room
			r.runFor(checkPeriod)
			copyRing(t, kept, ended.Path())
			lives, err := ring.OpenLocked(ended.Path())
			if err != nil {
				t.Fatal(err)
			}
			defer lives.Close()
			r.runFor(checkPeriod)
			if s := r.d.Stats(); s.Left != 2 || len(s.Rings) != 1 {
				t.Fatalf("%d rings, %d left alone", len(s.Rings), s.Left)
			}
			first.Close()
			r.runFor(3 * time.Second)
			logMany(c, 100, 150)
			c.Close()
			r.runFor(3 * time.Second)
			if err := asideFor(r, ended.Path()); !errors.Is(err, ring.ErrUntrusted) {
				t.Errorf("the ring that came back is set aside for %v", err)
			}
			if s := r.d.Stats(); s.Finished != 2 || s.SetAside != 1 {
				t.Errorf("%d finished, %d set aside: %q", s.Finished, s.SetAside, r.noticed)
			}
			k := readLogs(t, r.logs)["b/c"]
			k.checkIntact(t)
			wantIDs(t, k.events[0], 150)
		})
	}
}

// While another drainer has the directory, it may begin the log of a ring that this drainer has
// left undrained.
func TestARingThatAnotherDrainerTookMeanwhile(t *testing.T) {
	r := newRig(t, Options{MaxProcessRings: 1, Workers: 1})
	r.open("a/first", handlers.Options{})
	r.runFor(checkPeriod)
	c := r.open("b/c", handlers.Options{Handler: "id", Buffer: "16KiB"})
	logMany(c, 0, 100)
	r.runFor(checkPeriod)
	if s := r.d.Stats(); s.Left != 1 {
		t.Fatalf("%d rings are left alone", s.Left)
	}
	done := make(chan struct{})
	go func() { r.d.letGo(); close(done) }()
	for let := false; !let; {
		select {
		case <-done:
			let = true
		default:
			r.d.workers[0].runPass(r.clock) // the worker of a real drainer does this by itself
		}
	}
	other := &rig{t: t, rings: t.TempDir(), logs: r.logs}
	copyRing(t, c.Path(), filepath.Join(other.rings, filepath.Base(c.Path())))
	other.startRig(Options{})
	other.runFor(checkPeriod)
	other.killDrainer()
	r.d.o.MaxProcessRings = 0
	r.runFor(2 * time.Second)
	c.Close()
	r.runFor(2 * time.Second)
	if s := r.d.Stats(); s.Finished != 1 || s.SetAside != 0 {
		t.Errorf("%d finished, %d set aside: %q", s.Finished, s.SetAside, r.noticed)
	}
	k := readLogs(t, r.logs)["b/c"]
	k.checkIntact(t)
	wantIDs(t, k.events[0], 100)
}
