// Package zmqtransport carries the packets of package minrtt over ZeroMQ's REQ and REP sockets, as
// the research code of the Cloudprofiler paper does. So the bounds of both transports can be
// compared on one machine.
//
// The package serves only for this comparison. On either side a message passes through a thread of
// ZeroMQ and a TCP connection, so a stamp is taken tens of microseconds before or after the packet
// passes. There are no kernel stamps and no encryption, and an answerer cannot distinguish senders.
// The product does not measure with this package.
package zmqtransport
