// Package coordinator decides which nodes measure each other, and when. It acts on the messages
// that the server receives.
//
//	Server     registration, sweeps, runs, the handler table, behind a ZeroMQ link
//	Store      the directory with all measurements, so that a restarted server can continue
//	Matrix     the relations of all pairs, closed over the fleet
//	Ask…       the questions that a Server answers, and their answers
//
// The rules are in the type core, which one goroutine uses. Its clock and network are passed in, so
// tests can run fleets without waiting.
//
// Every wait has a deadline, and a node that misses it is named. If a node dies, hangs or leaves,
// only its own pairs are lost.
//
// The package does not probe (packages tscclient and minrtt do). It analyses no logs, and proves
// nothing about counters (package tscratio does).
package coordinator
