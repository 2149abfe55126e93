// Package minrtt exchanges packets with another node and stamps them: a train of probes and answers
// in, four stamps an exchange out, each an interval of a node's counter.
//
// A Prober starts trains, an Answerer answers those of any number of probers. Both stand on a
// Transport, which UDP implements with raw system calls, and on the functions that they are given
// as the node's clock; a test replaces either. FORMAT.md describes the packets and their keys.
//
// The package draws no conclusion from the stamps: package tscratio does. It neither schedules
// trains nor decides which nodes probe which, it hands out no keys, and it hides nothing from a
// reader of the network: packets are authenticated, not encrypted. Linux only.
package minrtt
