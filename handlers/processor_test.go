package handlers

import (
	"runtime"
	"slices"
	"sync"
	"testing"
	"time"
)

// Each processor of the Go runtime has a shard to itself, until somebody raises GOMAXPROCS above
// the number of shards while all writers log. Then the processors share, and no event is lost.
func TestProcessorsRaisedWhileManyLog(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(0))
	const writers, events, patience = 8, 2000, 10 * time.Second
	for range 20 {
		runtime.GOMAXPROCS(2)
		c := openTest(t, true, Options{Handler: "id", Buffer: "4KiB"})
		if !c.hasOwnShard(1) || c.hasOwnShard(2) {
			t.Fatalf("%d processors have a shard to themselves, want 2", c.processors)
		}
		d := drainWhile(t, c, func() {
			var all sync.WaitGroup
			var half sync.WaitGroup
			half.Add(writers)
			for w := range uint64(writers) {
				all.Go(func() {
					for n := range uint64(events) {
						if n == events/2 {
							half.Done()
						}
						c.Log(w<<loadShift | n)
					}
				})
			}
			half.Wait()
			runtime.GOMAXPROCS(writers)
			all.Wait()
			// Go on until a processor that has no shard has logged.
			for range writers {
				all.Go(func() {
					for start := time.Now(); !c.shared.Load() && time.Since(start) < patience; {
						c.Log(writers << loadShift)
					}
				})
			}
			all.Wait()
		})
		if !c.shared.Load() {
			t.Fatal("eight processors never met on two shards")
		}
		if d.holes > 0 {
			t.Errorf("%d holes, and nobody was killed", d.holes)
		}
		counts := make([]int, writers)
		for _, shard := range d.takenRecords {
			for _, r := range shard {
				if w := r.ID >> loadShift; w < writers {
					counts[w]++
				}
			}
		}
		if d.lookedOften() && slices.ContainsFunc(counts, func(n int) bool { return n != events }) {
			t.Errorf("records of each writer: %v, want %d", counts, events)
		}
	}
}
