package messages

import (
	"runtime"
	"testing"

	"github.com/cloudprofiler/cloudprofiler/blackbox"
	"github.com/cloudprofiler/cloudprofiler/internal/seed"
)

// Sockets keeps each call once, in at most 72 bytes. Nothing stays in the logs.
func TestSocketsMemory(t *testing.T) {
	const calls = 200_000
	w := newWorld(seed.Random(t))
	ends := w.connect(1000, 2000)
	used := func() uint64 {
		var m runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	before := used()
	for range calls / 2 {
		for i, k := range []blackbox.Kind{blackbox.Sent, blackbox.Received} {
			w.now += 100
			ends[i].log.add(blackbox.Message{Kind: k, Began_cycles: w.now, Ended_cycles: w.now + 50,
				Connection: ends[i].number, Thread: 1, Position: ends[0].sent, Bytes: 10,
				Stream: true, Sure: true})
		}
		ends[0].sent += 10
	}
	all := Sockets(w.logs[:])
	each := float64(used()-before) / calls
	found := 0
	for _, s := range all {
		found += len(s.Sends) + len(s.Receives)
	}
	if each > 72 || found != calls {
		t.Errorf("%d calls of %d, %.0f bytes each", found, calls, each)
	}
	runtime.KeepAlive(w)
}
