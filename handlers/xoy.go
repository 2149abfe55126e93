package handlers

import "github.com/cloudprofiler/cloudprofiler/channel"

// xoyHandler keeps an event if its id mod y is below x. Channels with the same x and y keep the
// same tuples on every node, so that the analysis sees whole paths of those tuples.
var xoyHandler = handler{
	prepare: func(s channel.Settings, _ bool) adoptedSettings {
		return adoptedSettings{mode: modeXoY, sieve: newSieve(s.A, s.B)}
	},
	log: func(c *Channel, set *adoptedSettings, id uint64) {
		if set.sieve.keeps(id) {
			c.recordEvent(id)
		}
	},
}
