package handlers

import (
	"runtime"

	"github.com/cloudprofiler/cloudprofiler/channel"
	"github.com/cloudprofiler/cloudprofiler/ring"
)

// firstLast keeps the first event, the last event and the counter at the first poison event, in
// cells of the ring. It shows how long a run took, and costs a few stores for each event.
var firstLast = handler{
	prepare: func(_ channel.Settings, many bool) adoptedSettings {
		if many {
			return adoptedSettings{mode: modeGo}
		}
		return adoptedSettings{mode: modeFirstLast}
	},
	log: func(c *Channel, _ *adoptedSettings, id uint64) {
		if c.writer != writerMany {
			c.cell.Put(ring.Record{Counter: c.chooseStamp(), ID: id})
			return
		}
		// Each shard has a cell. A goroutine may lose its core while it uses a cell. So other
		// goroutines do not wait for that cell. They use the next cell, and the reader merges all
		// cells.
		shards := c.ring.Shards
		first := uint64(pin())
		unpin()
		for i := first; ; i++ {
			shard := &shards[i&c.shardMask]
			if shard.ClaimCell() {
				shard.FirstLast().Put(ring.Record{Counter: c.chooseStamp(), ID: id})
				shard.ReleaseCell()
				return
			}
			if i&c.shardMask == c.shardMask {
				runtime.Gosched()
			}
		}
	},
}
