// Package minrtt exchanges packets with another node and stamps them. A train of probes and answers
// gives four stamps an exchange, each an interval of a node's counter.
//
// A Prober starts trains, and an Answerer answers those of any number of probers. Both use a
// Transport, which UDP implements with raw system calls, and functions that serve as the node's
// clock. A test replaces either. FORMAT.md describes the packets and their keys.
//
// The package draws no conclusion from the stamps: package tscratio does. It neither schedules
// trains nor decides which nodes probe which. It hands out no keys. It hides nothing from somebody
// who reads the network: packets are authenticated, not encrypted. It runs on Linux only.
package minrtt
