package handlers

import (
	"runtime"

	"github.com/cloudprofiler/cloudprofiler/asm"
	"github.com/cloudprofiler/cloudprofiler/channel"
	"github.com/cloudprofiler/cloudprofiler/ring"
)

// firstLast keeps the first event, the last one, and the stamp of the first poison, in cells of the
// ring. It shows how long a run took, for two stores an event.
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
		// Each shard has a cell. A goroutine may lose its core while it holds one, so others do not
		// wait for it: they take the next cell, and the reader merges all of them.
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
