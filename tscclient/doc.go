// Package tscclient is a node's part in measuring: it answers probes, runs trains with other nodes, and keeps what they
// proved.
//
//	Client       answers probes; Train runs a train; SetPeers has it probe by itself, on a budget, more often where the bound is wide;
//	             Pairs returns what is known
//	Identify     what this machine's node is: quantum, core slack, epoch
//	Link         puts a client under a server's command (package control)
//	Commands     answers "cprof relate" without one
//
// A client is complete without a server: a program that embeds it calls Train, or sets peers and lets it probe, and takes
// the pairs. Clocks are passed in as functions (minrtt.Clock), so that a node can have others than the machine's; the
// package knows of no virtual nodes.
//
// It finds no peers, decides on no rounds between nodes (package coordinator), draws no conclusion from what it keeps beyond
// the bound's width, by which it schedules, and writes no file.
package tscclient
