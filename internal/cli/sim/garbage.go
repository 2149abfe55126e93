package sim

import (
	"runtime/debug"
	"runtime/metrics"
	"sync"
	"time"
)

// Almost all memory of a simulation is the state of its nodes. So garbage may take at most a part
// of the size of this state. By default, Go would let garbage take as much memory as the state
// itself. But as long as all memory together stays below plenty_bytes, garbage may take more: then
// there are fewer garbage collections, each of which reads the state of all nodes.
const (
	garbage_percent     = 30
	mostGarbage_percent = 100
	plenty_bytes        = 13 << 29
	garbageLook         = 200 * time.Millisecond
)

// garbageFor returns how much garbage may accumulate, in percent of the live bytes.
func garbageFor(live_bytes uint64) (percent int) {
	if live_bytes == 0 || live_bytes >= plenty_bytes {
		return garbage_percent
	}
	free := min(float64(plenty_bytes-live_bytes)/float64(live_bytes)*100, mostGarbage_percent)
	return max(int(free), garbage_percent)
}

// letGarbageGrow starts to adapt the limit on garbage to the size of the state. This ends when the
// caller calls stop.
func letGarbageGrow() (stop func()) {
	done := make(chan struct{})
	var wait sync.WaitGroup
	wait.Go(func() {
		look := time.NewTicker(garbageLook)
		defer look.Stop()
		live := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
		for now := garbage_percent; ; {
			select {
			case <-done:
				return
			case <-look.C:
			}
			metrics.Read(live)
			if p := garbageFor(live[0].Value.Uint64()); p != now {
				now = p
				debug.SetGCPercent(now)
			}
		}
	})
	return func() {
		close(done)
		wait.Wait()
		debug.SetGCPercent(garbage_percent)
	}
}
