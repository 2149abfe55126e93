// Package wire carries the messages of the graph (package overlay) from node to node: it encodes,
// encrypts and authenticates them, and sends each as one UDP datagram.
//
//	Identity   a process' key pair, and the name under which others reach it
//	Issuer     signs the names of a fleet's nodes; the server has it
//	Socket     sends messages to names, and receives messages from names that an issuer signed
//	Encode     the bytes of a message; Decode checks them
//
// The name of a node in the graph says how to reach it: it consists of the node's plain name, its
// address and its public key. Two nodes derive the keys of their datagrams from their key pairs
// (X25519), so no third node can read or forge a datagram. A receiver believes a name that an
// issuer has signed. So no node can pose as another, and nodes that never met can talk while the
// server is away.
//
// The package keeps no graph, repeats no lost message, and does not decide whose names are signed.
package wire
