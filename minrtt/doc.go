// Package minrtt exchanges packets with another node and stamps them. Each exchange of a train
// gives four stamps. Each stamp is an interval of readings of a node's counter.
//
// A Prober starts trains, and an Answerer answers the trains of any number of probers. Both use a
// Transport, which UDP implements with raw system calls, and a Clock, the functions that read the
// node's clocks. A user stamp is a counter reading that the program takes before or after a system
// call. A kernel stamp is taken by the kernel when it handles the packet, and is therefore closer
// to the packet. Tests replace Transport and Clock. FORMAT.md describes the packets and their keys.
//
// The package draws no conclusion from the stamps; package tscratio does. It neither schedules
// trains nor decides which nodes probe each other, and it distributes no keys. Packets are
// authenticated, not encrypted, so anyone who can read the network can read them. The package runs
// on Linux only.
package minrtt
