package handlers

import "github.com/cloudprofiler/cloudprofiler/channel"

// identity keeps every event. Handlers id and buffered have the same log call. They differ in what
// the drainer does with the records: it writes them plain and soon, or compressed by the block.
var identity = handler{
	prepare: func(channel.Settings, bool) adopted { return adopted{mode: modeRecord} },
	log:     func(c *Channel, _ *adopted, id uint64) { c.record(id) },
}
