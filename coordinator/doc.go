// Package coordinator decides which nodes measure each other, and when. It acts on what the server
// hears.
//
//	Server     registration, sweeps, runs, the handler table, behind a ZeroMQ link
//	Store      the directory that keeps measurements, so that a restarted server can continue
//	Matrix     what is known of every pair, closed over the fleet
//	Ask…       the questions that a Server answers, and their answers
//
// The rules are in core, which one goroutine uses. Its clock and network are passed in, so tests
// can run fleets without waiting.
//
// Every wait has a deadline, and the node that misses it is named. A node that dies, hangs or
// leaves costs only its own pairs.
//
// The package does not probe (packages tscclient and minrtt do), analyses no logs, and proves
// nothing about counters (package tscratio does).
package coordinator
