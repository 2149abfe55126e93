package handlers

import "github.com/cloudprofiler/cloudprofiler/channel"

// identity keeps every event, for the handlers id and buffered. Only the drainer treats the two
// handlers differently: it writes the records of id soon and uncompressed, and the records of
// buffered later and in compressed blocks.
var identity = handler{
	prepare: func(channel.Settings, bool) adopted { return adopted{mode: modeRecord} },
	log:     func(c *Channel, _ *adopted, id uint64) { c.record(id) },
}
