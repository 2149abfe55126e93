//go:build !race

package handlers

import (
	"runtime"
	"sync"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/cloudprofiler/cloudprofiler/ring"
)

// If more goroutines count than there are shards, some have a cell of their own, and the others
// share. No event is lost, even if the goroutines move between processors.
func TestGoroutinesCountAloneOrTogether(t *testing.T) {
	const shards, writers, events = 2, 8, 2_000_000
	cores := runtime.GOMAXPROCS(shards)
	defer runtime.GOMAXPROCS(cores)
	c := openTest(t, true, Options{Handler: "counter"})
	runtime.GOMAXPROCS(writers)
	var live, all sync.WaitGroup
	live.Add(writers)
	for range writers {
		all.Go(func() {
			live.Done()
			live.Wait() // all live until here, so none gets the memory of an ended one
			for id := range uint64(events) {
				c.Log(id)
				if id%10_000 == 0 {
					runtime.Gosched()
				}
			}
		})
	}
	all.Wait()
	r, err := ring.Open(c.Path())
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	counted, err := r.Counted()
	if err != nil || counted != writers*events {
		t.Errorf("%d events counted, want %d; %v", counted, writers*events, err)
	}
	alone := uint64(0)
	for i := range c.ring.Shards {
		one := *c.ring.Shards[i].CounterAlone()
		if one > events {
			t.Errorf("%d events in the cell of one goroutine, which counted %d", one, events)
		}
		alone += one
	}
	// A goroutine's first event goes to a shared cell, even if the goroutine then gets a cell of
	// its own.
	if len(c.ring.Shards) != shards || alone < events-1 || alone > shards*(events-1) {
		t.Errorf("%d shards; %d events counted alone, want %d to %d", len(c.ring.Shards), alone,
			events-1, shards*(events-1))
	}
}

// A goroutine that shares a cell adds to it by a locked instruction. Without the lock, two
// processors that add at once would now and then lose an event. That is too rare to wait for, so
// this test steps through the call and looks at the code of the instruction that changed the cell.
func TestSharedCountsAreLocked(t *testing.T) {
	const lock = 0xF0 // the first byte of a locked instruction
	s := startStepped(t)
	r, err := ring.Open(s.openChannel(true, Options{Handler: "counter", Dir: t.TempDir()}))
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	// Log in another goroutine. It takes the only cell that a goroutine can have to itself.
	s.runOrder(order{Do: "aside"})
	// The first event of a goroutine is counted in Go, the others in assembly.
	for _, way := range []string{"log", "log", "go"} {
		before := counted(t, r)
		changes := 0
		var code [1]byte
		s.stepOrder(order{Do: way}, func(at int, _ bool) bool {
			now := counted(t, r)
			if now != before && code[0] != lock {
				t.Errorf("%s: instruction %d, which counts, begins with byte %#x, want %#x",
					way, at, code[0], lock)
			}
			if now != before {
				changes++
			}
			before = now
			var registers unix.PtraceRegs
			if err := unix.PtraceGetRegs(s.pid, &registers); err != nil {
				t.Fatal(err)
			}
			if _, err := unix.PtracePeekText(s.pid, uintptr(registers.Rip), code[:]); err != nil {
				t.Fatal(err)
			}
			return true
		})
		if changes != 1 {
			t.Errorf("%s: the count changed %d times, want once", way, changes)
		}
	}
}

func counted(t *testing.T, r *ring.Reader) uint64 {
	t.Helper()
	n, err := r.Counted()
	if err != nil {
		t.Fatal(err)
	}
	return n
}
