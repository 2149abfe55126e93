// Package tscclient does a node's part in measuring: it answers probes, runs trains with other
// nodes, and keeps the constraints that the trains prove.
//
//	Client       answers probes; Train runs a train; SetPeers makes it probe on its own, on a
//	             budget, more often where the bound is wide; Pairs returns the pairs
//	Identify     measures this machine's node: quantum, core slack, epoch
//	Link         lets a server command a client (package control)
//	Commands     answers "cprof relate" without a server
//
// A client works without a server. A program that embeds a client calls Train, or it calls SetPeers
// and lets the client probe. Then the program reads the pairs. The caller passes the clocks as
// functions (minrtt.Clock), so a node can have clocks other than the machine's. The package itself
// knows nothing about virtual nodes.
//
// The package finds no peers, plans no sweeps (package coordinator does) and writes no file. From
// the trains it computes only how wide a pair's bound is, which decides how often it probes the
// peer.
package tscclient
