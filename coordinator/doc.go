// Package coordinator decides who measures what with whom, and when: it is what a server does with what it hears.
//
//	Rounds     all pairs of n nodes, in rounds in which no node is twice
//	Core       the rules: registration, sweeps, runs, the handler table; one goroutine, its clock and network passed in
//	Serve      a Core behind a ZeroMQ link, until its context ends
//	Matrix     what is known of every pair, closed over the fleet
//
// Everything that waits has a deadline, and whoever misses it is named: a node that dies, hangs or leaves costs its own pairs
// and nobody else's. What was measured is kept in a directory, so that a restarted server goes on where it was.
//
// The package probes nothing itself (packages tscclient and minrtt do), analyses no logs, and proves nothing about counters:
// package tscratio does.
package coordinator
