// Package fleet is the commands that ask the server of a fleet, or make keys for one.
//
// They are config, keys, node, nodes, run and snapshot. All but keys ask tsc-server, whose address
// and keys their flags name, see server.go. What is asked and answered belongs to package
// coordinator; snapshot without --fleet asks the agent of this node alone.
package fleet
