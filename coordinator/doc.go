// Package coordinator is the server without its command line. From the messages that it receives,
// it decides which nodes measure each other, and when.
//
//	Server     registration, sweeps (which measure all pairs once), runs and the handler table,
//	           over a ZeroMQ link
//	Store      the directory with all measurements, so that a restarted server can continue
//	Matrix     the relations of all pairs, made narrower by paths over third nodes
//	Ask…       the questions that a Server answers, and their answers
//
// The rules are in the type core, which only one goroutine uses. The clock and the network are
// arguments, so tests can run fleets without waiting.
//
// Every wait has a deadline. If a node misses a deadline, the result names the node. If a node
// dies, hangs or leaves, only its own pairs are lost.
//
// The package does not probe: packages tscclient and minrtt do. It analyses no logs. It computes no
// bounds: package tscratio does.
//
// # Files
//
// The rules are methods of one type, and Go wants all methods of a type in one package. So this
// package has more files than others. core.go handles messages and time, serve.go connects the core
// to the link, and ask.go lists the questions. Nodes are in node.go, share.go and probekeys.go,
// pairs in pair.go, and sweeps in sweep.go and order.go. In a large fleet, graph.go says which
// pairs are measured. evaluate.go computes relations of pairs, and matrix.go, summary.go and
// bounds.go make answers of them. Runs are in run.go, run_collect.go, collect.go, gather.go and
// fetch.go. What is kept on disk is in store.go and journal.go.
package coordinator
