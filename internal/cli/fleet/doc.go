// Package fleet is the commands that ask the server of a fleet, or make keys for one.
//
// They are config, keys, node, nodes, run and snapshot. All but keys ask tsc-server; flags name its
// address and keys, see server.go. What is asked and answered belongs to package coordinator.
// Without --fleet, snapshot asks only the agent of this node.
package fleet
