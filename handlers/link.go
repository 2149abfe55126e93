package handlers

import "github.com/cloudprofiler/cloudprofiler/channel"

// linkHandler keeps pairs of ids. With them the analysis can follow tuples through an operator that
// makes one tuple from many tuples, or many tuples from one. A pair is two records with the same
// stamp: the parent's record has an even sequence number, and the child's record has the next one.
// Single records would break this order, so a link channel accepts only the handlers link and null.
var linkHandler = handler{
	prepare: func(channel.Settings, bool) adoptedSettings { return adoptedSettings{mode: modeGo} },
	log:     func(c *Channel, _ *adoptedSettings, _ uint64) { c.flagMisuse() },
}

// Link logs that an operator made tuple child from tuple parent, and perhaps from other tuples too.
// The channel must have the handler link.
func (c *Channel) Link(parent, child uint64) {
	if c.keepsNothing() {
		return
	}
	switch c.currentSettings().kind {
	case channel.Null:
	case channel.Link:
		c.writeRecords([2]uint64{parent, child}, 2)
	default:
		c.flagMisuse()
	}
}
