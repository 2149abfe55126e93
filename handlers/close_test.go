package handlers

import (
	"bytes"
	"errors"
	"os"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/cloudprofiler/cloudprofiler/internal/seed"
	"github.com/cloudprofiler/cloudprofiler/ring"
)

// Close may run while other goroutines log. Nothing faults, and the ring has the events of all
// calls that returned before Close.
func TestCloseUnderLoad(t *testing.T) {
	draw := seed.Random(t)
	for _, handler := range allHandlers {
		for _, writer := range allWriters {
			for range 2 {
				c := openTest(t, writer.many, Options{Handler: handler.name, Params: handler.params,
					Stamp: writer.stamp, Policy: "drop", Buffer: "64KiB"})
				writers := 1
				if writer.many {
					writers = 3
				}
				counts := make([]atomic.Uint64, writers)
				var stop atomic.Bool
				var all sync.WaitGroup
				for w := range writers {
					all.Go(func() {
						for n := uint64(0); !stop.Load(); n++ {
							if id := uint64(w)<<loadShift | n; c.links {
								c.Link(id, childOf(id))
							} else {
								c.Log(id)
							}
							counts[w].Store(n + 1)
						}
					})
				}
				time.Sleep(time.Duration(draw.IntN(300)) * time.Microsecond)
				before := make([]uint64, writers)
				for w := range before {
					before[w] = counts[w].Load()
				}
				if err := c.Close(); err != nil {
					t.Fatal(err)
				}
				if err := c.Close(); err != nil {
					t.Errorf("second Close() = %v", err)
				}
				after := make([]uint64, writers)
				for w := range after {
					after[w] = counts[w].Load() + 1 // one more for the call that may be running
				}
				time.Sleep(200 * time.Microsecond) // let the writers make calls after Close
				stop.Store(true)
				all.Wait()
				closedRing(t, c, before, after)
			}
		}
	}
}

// closedRing checks the ring of a closed channel. Of the events of each writer w, the ring must
// have the first ones: at least before[w] of them, and at most after[w].
func closedRing(t *testing.T, c *Channel, before, after []uint64) {
	t.Helper()
	d, err := newDrain(c.Path())
	if err != nil {
		t.Fatal(err)
	}
	defer d.consumer.Close()
	if alive, err := d.consumer.Alive(); alive || err != nil {
		t.Errorf("ring of a closed channel is alive: %v, %v", alive, err)
	}
	if s, err := d.consumer.State(0); err != nil || s.Flags != ring.FlagClosed {
		t.Errorf("flags %#x, %v, want closed", s.Flags, err)
	}
	if err := d.finishDrain(); err != nil {
		t.Fatal(err)
	}
	if c.links {
		if err := parentRecords(d); err != nil {
			t.Fatal(err)
		}
	}
	config, _, err := d.consumer.Settings()
	if err != nil {
		t.Fatal(err)
	}
	var least, most, kept uint64
	for w := range before {
		least, most = least+before[w], most+after[w]
	}
	for i, shard := range d.takenRecords {
		for k, r := range shard {
			if w, n := r.ID>>loadShift, r.ID&(1<<loadShift-1); w >= uint64(len(after)) ||
				n >= after[w] {
				t.Errorf("shard %d: record %d has id %#x, which nobody logged before the "+
					"end of Close", i, k, r.ID)
			}
		}
		kept += uint64(len(shard))
	}
	switch config.Kind.String() {
	case "id", "buffered", "link":
		if sum := kept + d.dropped; sum < least || sum > most {
			t.Errorf("%d kept and %d dropped, %d to %d calls returned", kept, d.dropped, least,
				most)
		}
	case "counter":
		if n, err := d.consumer.Counted(); err != nil || n < least || n > most {
			t.Errorf("%d counted, %v, %d to %d calls returned", n, err, least, most)
		}
	case "first-last":
		if f, err := d.consumer.FirstAndLast(); err != nil || f.Count < least || f.Count > most {
			t.Errorf("%+v, %v, %d to %d calls returned", f, err, least, most)
		}
	}
}

// Close ends a call that waits for a drainer. Without Close, the call waits for a second. On a
// crowded machine even a call that Close ends may take that long, but not three times in a row.
func TestCloseEndsWaiting(t *testing.T) {
	for _, many := range []bool{false, true} {
		var longest time.Duration
		for range 3 {
			if longest = longestCallBesideClose(t, many); longest <= 900*time.Millisecond {
				break
			}
		}
		if longest > 900*time.Millisecond {
			t.Errorf("many=%v: a call took %v", many, longest)
		}
	}
}

func longestCallBesideClose(t *testing.T, many bool) time.Duration {
	t.Helper()
	c := openTest(t, many, Options{Handler: "id", Buffer: "256"})
	waiting, returned := make(chan bool), make(chan time.Duration)
	go func() {
		var longest time.Duration
		for id := range uint64(100) { // far more than the ring has room for
			if id == 16 {
				close(waiting)
			}
			begun := time.Now()
			c.Log(id)
			longest = max(longest, time.Since(begun))
		}
		returned <- longest
	}()
	<-waiting
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
	return <-returned
}

func TestCloseGivesEverythingBack(t *testing.T) {
	count := func() (descriptors, mappings int) {
		t.Helper()
		entries, err := os.ReadDir("/proc/self/fd")
		if err != nil {
			t.Fatal(err)
		}
		maps, err := os.ReadFile("/proc/self/maps")
		if err != nil {
			t.Fatal(err)
		}
		return len(entries), bytes.Count(maps, []byte("\n"))
	}
	dir := t.TempDir()
	cycle := func(n int) {
		t.Helper()
		for range n {
			for _, many := range []bool{false, true} {
				c, err := open("actor/start", Options{Dir: dir, Buffer: "256"}, many)
				if err != nil {
					t.Fatal(err)
				}
				c.Log(1)
				if err := c.Close(); err != nil {
					t.Fatal(err)
				}
				if err := os.Remove(c.Path()); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
	cycle(10) // first let the runtime open the files that it needs itself
	descriptors, mappings := count()
	const n = 300
	cycle(n)
	descriptorsAfter, mappingsAfter := count()
	if descriptorsAfter > descriptors {
		t.Errorf("%d descriptors, %d before %d channels", descriptorsAfter, descriptors, 2*n)
	}
	// The address space of closed rings stays reserved. The kernel joins mappings that are side by
	// side, so their number must not grow with the number of channels.
	if mappingsAfter > mappings+50 {
		t.Errorf("%d mappings, %d before %d channels", mappingsAfter, mappings, 2*n)
	}
}

// While a program can still log to a channel, the garbage collector does not release the ring's
// lock or memory.
func TestCollectorLeavesChannelsAlone(t *testing.T) {
	c := openTest(t, true, Options{Handler: "id"})
	r, err := ring.Open(c.Path())
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	for range 5 {
		runtime.GC()
		time.Sleep(time.Millisecond) // gives finalizers time to run
		c.Log(1)
	}
	if alive, err := r.Alive(); !alive || err != nil {
		t.Errorf("alive %v, %v", alive, err)
	}
	if n := len(slices.Concat(readRecords(t, c)...)); n != 5 {
		t.Errorf("%d records, want 5", n)
	}
}

// A child process keeps no channel of its parent alive.
func TestChildHoldsNoChannel(t *testing.T) {
	c := openTest(t, false, Options{Handler: "id"})
	cmd := programCommand(t, "wait")
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	startProgram(t, cmd)
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
	r, err := ring.Open(c.Path())
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	if alive, err := r.Alive(); alive || err != nil {
		t.Errorf("a child keeps a closed channel's ring alive: %v, %v", alive, err)
	}
	in.Close()
	if err := cmd.Wait(); err != nil {
		t.Error(err)
	}
}

func init() {
	programs["wait"] = func() error {
		var b [1]byte
		if n, err := syscall.Read(0, b[:]); n != 0 || err != nil {
			return errors.New("something came")
		}
		return nil
	}
}
