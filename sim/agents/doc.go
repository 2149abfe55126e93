// Package agents simulates fleets of the product. The code that decides who is whose neighbour
// (package overlay) and the code that computes relations (package tscratio) are those of a real
// node, unchanged. Only the network, the time and the counters are simulated.
//
// Each agent is a member of the graph and runs trains with its neighbours in turn, within its
// budget. A sample of the agents keeps what its trains prove, and an observer compares the bounds
// that follow with the truth. The packets of a train are not events: the delays of a path between
// neighbours are some microseconds, and windows of that length would be slow. Their stamps are
// computed at once, from two counters that are functions of the time.
//
// The state of overlay.Node cannot be stored, so a simulation of agents cannot be restarted from a
// checkpoint.
package agents
