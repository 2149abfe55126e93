// Package control is how the server and its clients talk: the messages, and the link that carries them.
//
// A message is a Go struct here and two or three frames on the wire (FORMAT.md): Encode and Decode turn one into the
// other, and look at nothing but the bytes. Server and Client carry messages over ZeroMQ (ROUTER and DEALER), with CURVE
// keys as soon as a packet leaves the machine:
//
//	Listen, Server    the server's end: admits registrations, refuses and counts what is wrong
//	Dial, Client      the end of a node or of a command: Register, Send, Receive, Ask
//	ReadKey, …        the files in which keys are kept
//
// The package says what is said, not what is done about it: it keeps no list of nodes, schedules nothing and probes nothing.
// Probes between nodes do not go this way (package minrtt).
package control
