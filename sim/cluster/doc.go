// Package cluster runs one simulation in several processes, on this machine or on others. NATS
// connects them: an embedded server, or one that runs already.
//
// A leader starts the processes and gives each a part of the shards. After each window every
// process sends every other one a bundle: the events for its shards, and when its own next event
// comes. So all know where the next window begins, and there is no message beside the bundles. The
// result is the same as that of one process, bit by bit.
//
//	termination.go  three phases, so that no event from outside is lost at the end
//	token.go        one simulation after the other: a queue in the key-value store
//	link.go         the bundles
//	worker.go       a process: windows, checkpoints, load balancing, events from outside
//	leader.go       starts processes, restarts them from the last checkpoint, collects results
//
// A checkpoint lies in the object store, one object for each process. The key-value store names the
// last one that is whole. If a process dies, the leader ends the others, and starts as many as are
// wanted from that checkpoint. A process that shall leave (detach) does so at a checkpoint, too.
//
// Bundles need a network on which the processes can trust each other and the server.
package cluster
