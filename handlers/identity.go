package handlers

import "github.com/cloudprofiler/cloudprofiler/channel"

// identityHandler keeps every event, for the handlers id and buffered. Only the drainer treats the
// two handlers differently: it writes the records of id soon and uncompressed, and the records of
// buffered later and in compressed blocks.
var identityHandler = handler{
	prepare: func(channel.Settings,
		bool) adoptedSettings {
		return adoptedSettings{mode: modeRecord}
	},
	log: func(c *Channel, _ *adoptedSettings, id uint64) { c.recordEvent(id) },
}
