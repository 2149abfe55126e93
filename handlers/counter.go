package handlers

import (
	"sync/atomic"

	"github.com/cloudprofiler/cloudprofiler/channel"
)

// counter counts the events in a cell of the ring. It takes no stamp: once a period, the drainer
// samples all cells of a node at one instant and takes differences. The cell is never reset.
var counter = handler{
	prepare: func(_ channel.Settings, many bool) adopted {
		if many {
			return adopted{mode: modeCounterMany}
		}
		return adopted{mode: modeCounter}
	},
	log: func(c *Channel, _ *adopted, _ uint64) {
		if c.writer == writerMany {
			atomic.AddUint64(c.counter, 1)
			return
		}
		atomic.StoreUint64(c.counter, *c.counter+1)
	},
}
