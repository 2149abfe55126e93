package drain

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/cloudprofiler/cloudprofiler/handlers"
)

// The kernel reports which rings arrive. If too many arrive at once, the drainer must read the
// directory.
func TestArrivals(t *testing.T) {
	dir, stop := t.TempDir(), make(chan struct{})
	defer close(stop)
	a := newFiles{some: make(chan struct{}, 1)}
	if err := a.watchDirectory(dir, stop); err != nil {
		t.Fatal(err)
	}
	come := func(names ...string) {
		t.Helper()
		for _, name := range names {
			path := filepath.Join(dir, name)
			if err := os.WriteFile(path+".part", nil, 0o600); err != nil {
				t.Fatal(err)
			}
			if err := os.Rename(path+".part", path); err != nil {
				t.Fatal(err)
			}
		}
	}
	var want, got []string
	for i := range 100 {
		want = append(want, fmt.Sprintf("a~x%03d.%032x.ring", i, i))
	}
	come("node")
	come(want...)
	for len(got) < len(want) {
		<-a.some
		names, all := a.takeNames()
		if !all {
			t.Fatal("some names are lost")
		}
		got = append(got, names...)
	}
	if !slices.Equal(got, want) {
		t.Errorf("%q came, want %q", got, want)
	}
	a.mu.Lock()
	for i := range maxArrived {
		a.names = append(a.names, fmt.Sprint(i))
	}
	a.mu.Unlock()
	come("one-more.ring")
	// The channel may still contain a value for names that were taken before.
	for lost := false; !lost; {
		<-a.some
		a.mu.Lock()
		lost = a.lost
		a.mu.Unlock()
	}
	if names, all := a.takeNames(); all || len(names) > 0 {
		t.Errorf("of too many, %d names, all %v", len(names), all)
	}
	if names, all := a.takeNames(); !all || len(names) > 0 {
		t.Errorf("then %d names, all %v", len(names), all)
	}
}

// If rings arrive while the drainer reads the directory, or later, the drainer gets their names
// from the kernel and counts each ring once.
func TestRingsThatArrive(t *testing.T) {
	r := newRig(t, Options{})
	r.d.room.rings = 2
	var names []string
	for i := range 4 {
		c := r.open(fmt.Sprintf("a/x%d", i), handlers.Options{Buffer: "1KiB"})
		names = append(names, filepath.Base(c.Path()))
		if i == 0 {
			r.runFor(checkPeriod)
		}
	}
	arrive := func() {
		r.d.came.mu.Lock()
		r.d.came.names = slices.Clone(names)
		r.d.came.mu.Unlock()
		if !r.d.scanArrived() {
			t.Error("the directory would be read")
		}
	}
	for range 3 {
		arrive()
		if s := r.d.Stats(); len(s.Rings) != 2 || s.Left != 2 {
			t.Fatalf("%d rings, %d left", len(s.Rings), s.Left)
		}
	}
	r.runFor(2 * time.Second)
	if s := r.d.Stats(); len(s.Rings) != 2 || s.Left != 2 {
		t.Errorf("%d rings, %d left", len(s.Rings), s.Left)
	}
	// A process that has less than its share gets room for a ring as soon as another process has
	// given up a ring.
	other := r.open("b/x", handlers.Options{Buffer: "1KiB"})
	forgeIdentity(t, other.Path(), 232, word(1))
	names = append(names, filepath.Base(other.Path()))
	arrive()
	for range 2 {
		for _, w := range r.d.workers {
			w.runPass(r.clock)
		}
		r.d.scanSoon()
	}
	if s := r.d.Stats(); len(s.Rings) != 2 || s.Left != 3 || r.statsOf("b/x").Path == "" {
		t.Errorf("%d rings, %d left: %+v", len(s.Rings), s.Left, s.Processes)
	}
	if r.d.expectsRoom() {
		t.Errorf("it expects room for %v", r.d.soon)
	}
}
