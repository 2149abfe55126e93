package handlers

import "github.com/cloudprofiler/cloudprofiler/channel"

// link keeps pairs of ids, so that the analysis can follow tuples through an operator that makes
// one tuple of many, or many of one. A pair is two records with one stamp: the parent's at an even
// sequence, and the child's at the odd one after it. Single records would break that order, so a
// link channel takes no handler but link and null.
var link = handler{
	prepare: func(channel.Settings, bool) adopted { return adopted{mode: modeGo} },
	log:     func(c *Channel, _ *adopted, _ uint64) { c.misuse() },
}

// Link keeps the pair of a parent's id and a child's: the child was made of the parent, perhaps
// among others. The channel needs the handler link.
func (c *Channel) Link(parent, child uint64) {
	if c.keepsNothing() {
		return
	}
	switch c.current().kind {
	case channel.Null:
	case channel.Link:
		c.write([2]uint64{parent, child}, 2)
	default:
		c.misuse()
	}
}
