// Package fleet measures how narrow bounds are in large fleets, and whether they are true.
//
// It simulates the network and the oscillators of a fleet in one process. The rest is the code of
// the product. Nodes maintain the graph (package overlay), and overlay/wire gives the size of its
// messages. Counters are virtual (vnode). Relations and their closure come from tscratio. The truth
// comes from a second, exact implementation of the counters (vnode.Truth).
//
//	net.go      the simulated time and network
//	measure.go  trains between nodes, and the relations that follow
//	liar.go     nodes that report false stamps
//	fleet.go    Run simulates a fleet
//	alone.go    the CPU time of a node that runs alone and gets the messages of a fleet again
//	ask.go      compares bounds of random pairs with the truth
//	kelp.go     Kelp repeats the experiments of KELP's thesis (and kelp_search.go, kelp_queue.go)
//	server.go   Watch measures a real server that serves many simulated nodes, in real time
//	member.go   a simulated node of this server
//	link.go     the connection of such a node, which costs less than one of ZeroMQ
//
// A node measures its peers in turn, as tscclient's scheduler does if the budget does not suffice
// for all peers at once. In Run, no server takes part, but nodes get contacts as from a server that
// all of them can always reach. In Watch, the server is real: it runs in its own process, and its
// connections use keys. The nodes of Watch have counters without wander, and a graph that never
// changes, because the server would notice neither wander nor changes.
package fleet
