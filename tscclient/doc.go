// Package tscclient is a node's part in measuring: it answers probes, runs trains with other nodes,
// and keeps the constraints that they prove.
//
//	Client       answers probes; Train runs a train; SetPeers makes it probe on its own, on a
//	             budget, more often where the bound is wide; Pairs returns the pairs
//	Identify     determines this machine's node: quantum, core slack, epoch
//	Link         lets a server command a client (package control)
//	Commands     answers "cprof relate" without a server
//
// A client works without a server. A program that embeds a client calls Train, or sets peers and
// lets the client probe, and then reads the pairs. Clocks are passed in as functions
// (minrtt.Clock), so a node can have clocks other than the machine's. The package is independent of
// virtual nodes.
//
// The package finds no peers, plans no rounds between nodes (package coordinator) and writes no
// file. The only conclusion that it draws from the trains is the width of the bound, by which it
// schedules.
package tscclient
