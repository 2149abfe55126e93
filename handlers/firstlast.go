package handlers

import (
	"runtime"

	"github.com/cloudprofiler/cloudprofiler/asm"
	"github.com/cloudprofiler/cloudprofiler/channel"
	"github.com/cloudprofiler/cloudprofiler/ring"
)

// firstLast keeps the first event, the last event and the stamp of the first poison, in cells of
// the ring. It shows how long a run took, at the cost of a few stores for each event.
var firstLast = handler{
	prepare: func(_ channel.Settings, many bool) adopted {
		if many {
			return adopted{mode: modeGo}
		}
		return adopted{mode: modeFirstLast}
	},
	log: func(c *Channel, _ *adopted, id uint64) {
		if c.writer != writerMany {
			c.cell.Put(ring.Record{Counter: c.stamp(), ID: id})
			return
		}
		// Each shard has a cell. A goroutine may lose its core while it uses a cell, so other
		// goroutines do not wait for the cell: they use the next one, and the reader merges all
		// cells.
		shards := c.ring.Shards
		_, core := asm.CounterCore()
		for i := uint64(core); ; i++ {
			shard := &shards[i&c.coreMask]
			if shard.ClaimCell() {
				shard.FirstLast().Put(ring.Record{Counter: c.stamp(), ID: id})
				shard.ReleaseCell()
				return
			}
			if i&c.coreMask == c.coreMask {
				runtime.Gosched()
			}
		}
	},
}
