// Package fleet contains the commands that ask the server of a fleet, or make keys for it.
//
// The commands are config, keys, node, nodes, place, run, snapshot and top. keys asks nobody, and
// snapshot without --fleet asks only the agent of this node. place asks the server only for what
// its file leaves out. All other commands ask the server, and their flags give its address and the
// keys (server.go). Package coordinator defines the questions and answers.
package fleet
