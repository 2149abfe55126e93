// Package control defines the messages between the server and its clients, and the link that
// carries the messages.
//
// A message is a Go struct in this package, and two or three frames on the wire (FORMAT.md). Encode
// and Decode convert between these forms. Server and Client send the frames over ZeroMQ (ROUTER and
// DEALER). They require CURVE keys unless all packets stay on this machine.
//
//	Listen, Server    the server's end: admits registrations, refuses and counts what is wrong
//	Dial, Client      the end of a node or of a command: Register, Send, Receive, Ask
//	ReadKey, …        the files in which keys are stored
//
// The package only carries messages: it keeps no list of nodes, schedules nothing and probes
// nothing. Probes between nodes do not travel over this link (package minrtt sends them).
package control
