// Package fleet contains the commands that ask the server of a fleet, or make keys for it.
//
// The commands are config, keys, node, nodes, place, run, snapshot and top. keys asks nobody, and
// snapshot without --fleet asks only the agent of this node. place asks the server only for what
// its file leaves out. All others ask the server. Their flags give the server's address and the
// keys (server.go). Package coordinator defines the questions and answers.
package fleet
