package handlers

import (
	"sync/atomic"

	"github.com/cloudprofiler/cloudprofiler/channel"
)

// counter is the handler that only counts events: a cell of the ring holds the count. A log call
// does not read the CPU's counter. Instead, the drainer reads the CPU's counter once for the cells
// of all counting channels with the same period. Nobody resets the cell.
var counter = handler{
	prepare: func(_ channel.Settings, many bool) adopted {
		if many {
			return adopted{mode: modeCounterMany}
		}
		return adopted{mode: modeCounter}
	},
	log: func(c *Channel, _ *adopted, _ uint64) {
		if c.writer == writerMany {
			c.countMany()
			return
		}
		atomic.StoreUint64(c.counter, *c.counter+1)
	},
}
