package handlers

import (
	"runtime"
	"sync/atomic"
	_ "unsafe" // for linkname
)

// The Go runtime runs goroutines on GOMAXPROCS processors. A goroutine that is pinned to its
// processor is the only one that runs there. So if each processor has a shard of its own, a writer
// that is pinned needs no locked operation to reserve a place. The pools of package sync work in
// the same way. pin and unpin are functions of the runtime. The runtime keeps them because other
// packages link to them.
//
// Between pin and unpin a goroutine must neither wait nor allocate.

//go:linkname pin runtime.procPin
func pin() int

//go:linkname unpin runtime.procUnpin
func unpin()

// hasOwnShard reports whether the processor to which the caller is pinned has a shard to itself.
func (c *Channel) hasOwnShard(processor int) bool {
	return processor < int(atomic.LoadUint32(&c.processors))
}

// Normally each processor has a shard to itself. If somebody raises GOMAXPROCS above the number of
// shards after the channel was opened, shareShards lets several processors use one shard. From
// then on every writer uses a locked operation.
//
// A writer that is pinned now may still write without a locked operation, so shareShards must wait
// until no goroutine is pinned. For this purpose it calls runtime.ReadMemStats, which stops all
// goroutines: the runtime can stop them only when none is pinned.
func (c *Channel) shareShards() {
	c.changes.Lock()
	defer c.changes.Unlock()
	if c.shared.Load() {
		return
	}
	atomic.StoreUint32(&c.processors, 0)
	runtime.ReadMemStats(new(runtime.MemStats))
	c.shared.Store(true)
}
