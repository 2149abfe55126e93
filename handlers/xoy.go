package handlers

import "github.com/cloudprofiler/cloudprofiler/channel"

// xoy keeps an event if its id mod y is below x. Channels with the same x and y keep the same
// tuples on every node, so that the analysis sees whole paths of those tuples.
var xoy = handler{
	prepare: func(s channel.Settings, _ bool) adopted {
		return adopted{mode: modeXoY, sieve: newSieve(s.A, s.B)}
	},
	log: func(c *Channel, set *adopted, id uint64) {
		if set.sieve.keeps(id) {
			c.record(id)
		}
	},
}
