package handlers

import (
	"sync/atomic"

	"github.com/cloudprofiler/cloudprofiler/channel"
)

// counterHandler is the handler that only counts events: a cell of the ring holds the count. A log
// call does not read the CPU's counter. Instead, the drainer reads the CPU's counter once for the
// cells of all counting channels with the same period. Nobody resets the cell.
var counterHandler = handler{
	prepare: func(_ channel.Settings, many bool) adoptedSettings {
		if many {
			return adoptedSettings{mode: modeCounterMany}
		}
		return adoptedSettings{mode: modeCounter}
	},
	log: func(c *Channel, _ *adoptedSettings, _ uint64) {
		if c.writer == writerMany {
			c.countMany()
			return
		}
		atomic.StoreUint64(c.counter, *c.counter+1)
	},
}
