// Package server lets the agents of a simulation work under the product's server. Node 0 runs the
// server: package coordinator decides, unchanged, which nodes probe each other, what their trains
// prove, and which nodes lie (report false stamps). The package simulates the rest. The connections
// between agents and server deliver messages in their order. The clients do what package tscclient
// does. Counters are interrupted, so they begin new epochs, and some nodes lie.
//
//	Coordinator          the server, in virtual time
//	CoordinatorClient    the clients, one for each agent
//	CoordinatorObserver  compares what the server knows with the truth
//
// The package leaves all decisions to the server and the agents. Package sim/agents has the agents.
package server
