package handlers

import (
	"sync/atomic"

	"github.com/cloudprofiler/cloudprofiler/channel"
)

// downsampleHandler keeps the first of every n events of the channel, in the order of the calls.
// Different channels keep different tuples. Use xoy to follow the same tuples through several
// channels.
var downsampleHandler = handler{
	prepare: func(s channel.Settings, many bool) adoptedSettings {
		set := adoptedSettings{mode: modeDownsample, sieve: newSieve(1, s.A)}
		if many {
			set.mode = modeGo
		}
		return set
	},
	log: func(c *Channel, set *adoptedSettings, id uint64) {
		var call uint64
		if c.writer == writerMany {
			call = atomic.AddUint64(&c.calls, 1) - 1
		} else {
			call = c.calls
			c.calls++
		}
		if set.sieve.keeps(call) {
			c.recordEvent(id)
		}
	},
}
