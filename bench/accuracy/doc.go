// Package accuracy measures how narrow the bounds between two nodes are, and whether they are true.
// "cp-bench probe" and docs/accuracy.md show the figures.
//
// The nodes are two network namespaces of this machine with a link between them. Without root, the
// nodes are two sockets on this machine's loopback interface. Each node has virtual clocks
// (packages vnode and virtual). These clocks differ like the clocks of two machines, but the truth
// about them is known exactly. The packets, the stamps and the load are real.
//
//	setup.go      the two ends, the processes in them, and what the machine's counter is good for
//	peer.go       the process of the other end: answers, takes load, makes load
//	session.go    trains at a pace, and their results
//	bounds.go     plain, intersected and windowed bounds of a session, compared with the truth
//	paper.go      the paper's method on the same exchanges
//	roundtrip.go  the smallest round trip, against a bare ping-pong
//	process.go    how processes are started, pinned and ended, and their processor time
//
// The package judges nothing and prints nothing: tables and limits are in package bench/commands.
package accuracy
