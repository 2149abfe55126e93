// Package zmqtransport carries the packets of package minrtt over ZeroMQ's REQ and REP sockets, as
// the research code of the Cloudprofiler paper does. This allows comparing the bounds of both on
// one machine.
//
// It serves only for comparison. On either side a message passes through a thread of ZeroMQ and a
// TCP connection, so a stamp is taken tens of microseconds away from the packet. There are no
// kernel stamps and no encryption, and senders cannot be distinguished. Nothing in the product
// measures with this package.
package zmqtransport
