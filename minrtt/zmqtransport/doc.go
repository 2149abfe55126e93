// Package zmqtransport carries the packets of package minrtt over ZeroMQ's REQ and REP sockets, as
// the research code of the Cloudprofiler paper does, so that its bounds can be measured beside ours
// on one machine.
//
// It is for comparison. A message passes through a thread of ZeroMQ's own and a TCP connection on
// either side, so that a stamp is taken tens of microseconds from where the packet is; there are no
// kernel stamps, no encryption and no way to tell senders apart. Nothing in the product measures
// with it.
package zmqtransport
