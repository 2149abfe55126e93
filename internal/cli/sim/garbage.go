package sim

import (
	"runtime/debug"
	"runtime/metrics"
	"sync"
	"time"
)

// Almost all memory of a simulation is the state of its nodes. So garbage may take at most a part
// of the size of this state. By default, Go would let garbage take as much memory as the state
// itself. But as long as the whole process stays below plenty_bytes, garbage may take more: then
// there are fewer garbage collections, each of which reads the state of all nodes.
//
// The whole process takes more than state and garbage: the allocator leaves gaps, and the collector
// has tables of its own. Together, these take up to 45 % of the size of the state. process_percent
// is the sum of these 45 % and garbage_percent.
const (
	garbage_percent     = 30
	process_percent     = 75
	mostGarbage_percent = 150
	plenty_bytes        = 7_400_000_000
	garbageLook         = 200 * time.Millisecond
)

// limitFor returns how much memory the whole process may take, for a given size of the state.
func limitFor(live_bytes uint64) (limit_bytes int64) {
	return int64(max(plenty_bytes, live_bytes+live_bytes/100*process_percent))
}

// letGarbageGrow lets garbage take the memory that is free, and starts to adapt the limit on all
// memory to the size of the state. This ends when the caller calls stop.
func letGarbageGrow() (stop func()) {
	done := make(chan struct{})
	var wait sync.WaitGroup
	memory_bytes := debug.SetMemoryLimit(limitFor(0))
	percent := debug.SetGCPercent(mostGarbage_percent)
	wait.Go(func() {
		look := time.NewTicker(garbageLook)
		defer look.Stop()
		live := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
		for now := limitFor(0); ; {
			select {
			case <-done:
				return
			case <-look.C:
			}
			metrics.Read(live)
			if limit := limitFor(live[0].Value.Uint64()); limit != now {
				now = limit
				debug.SetMemoryLimit(now)
			}
		}
	})
	return func() {
		close(done)
		wait.Wait()
		debug.SetMemoryLimit(memory_bytes)
		debug.SetGCPercent(percent)
	}
}
