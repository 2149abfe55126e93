package handlers

import "github.com/cloudprofiler/cloudprofiler/channel"

// link keeps pairs of ids, so that a lineage can be followed through an operator that makes one tuple of many or many
// of one. A pair is two records with one stamp, the parent's and then the child's, at an even sequence and the odd
// one after it; that is why a link channel has no other handler than link and null.
var link = handler{
	prepare: func(channel.Settings, bool) adopted { return adopted{mode: modeGo} },
	log:     func(c *Channel, _ *adopted, _ uint64) { c.misuse() },
}

// Link keeps the pair of a parent's id and a child's: the parent took part in making the child. It needs a channel
// with the handler link.
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
