// Package coordinator decides who measures what with whom, and when: it is what a server does with what it hears.
//
//	Server     registration, sweeps, runs, the handler table, behind a ZeroMQ link
//	Store      the directory in which what was measured is kept, so that a restarted server goes on where it was
//	Matrix     what is known of every pair, closed over the fleet
//	Ask…       the questions that a Server answers, and their answers
//
// The rules are core's, which one goroutine uses, with its clock and network passed in: tests run fleets of it in no time.
//
// Everything that waits has a deadline, and whoever misses it is named: a node that dies, hangs or leaves costs its own pairs
// and nobody else's.
//
// The package probes nothing itself (packages tscclient and minrtt do), analyses no logs, and proves nothing about counters:
// package tscratio does.
package coordinator
