// Package agents simulates fleets of the product. Package overlay decides which nodes are
// neighbours, and package tscratio computes relations: the same code as in a real node. Only the
// network, the time and the counters are simulated.
//
// Each agent is a member of the graph and runs trains with its neighbours in turn, within its
// budget. The agents of a sample keep what their trains prove. An observer compares the bounds that
// follow from these proofs with the truth. The packets of a train are not events. If packets were
// events, the windows of the simulation would have to be as short as the delays of packets, which
// are some microseconds. So the simulation would be slow. All stamps of a train are computed in one
// step, from two counters that are functions of the time.
//
//	agents.go    the agents: their part in the graph, and their trains
//	graph.go     a fleet that begins as a whole graph, without joins
//	observer.go  the comparison with the truth
//	state.go     the state of agents in checkpoints
package agents
