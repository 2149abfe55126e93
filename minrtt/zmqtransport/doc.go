// Package zmqtransport carries the packets of package minrtt over ZeroMQ's REQ and REP sockets, as
// the research code of the Cloudprofiler paper does. Its bounds can then be compared with ours on
// one machine.
//
// It serves only for comparison. On either side a message passes a thread of ZeroMQ's own and a TCP
// connection, so a stamp is taken tens of microseconds away from the packet. There are no kernel
// stamps and no encryption, and senders cannot be told apart. Nothing in the product measures with
// it.
package zmqtransport
