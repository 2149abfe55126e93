//go:build !race

package handlers

import (
	"runtime"
	"sync"
	"testing"

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
