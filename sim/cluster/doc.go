// Package cluster runs one simulation in several processes, on this machine or on others. NATS
// connects them: an embedded server, or one that runs already.
//
// A leader starts the processes and gives each a part of the shards. After each window, every
// process sends a bundle to every other process: the events for the receiver's shards, and the time
// of the sender's next event. So all processes know where the next window begins, and need no other
// messages. The result is the same, bit by bit, as that of one process.
//
//	termination.go  three phases, so that no event from outside is lost at the end
//	token.go        one simulation after the other: a queue in the key-value store
//	link.go         the bundles
//	worker.go       a process: windows, checkpoints, load balancing, events from outside
//	leader.go       starts processes, restarts them from the last checkpoint, collects results
//
// A checkpoint is in the object store, as one object for each process. The key-value store names
// the last whole checkpoint: the last one that every process has saved. If a process dies, the
// leader ends the others, and starts the wanted number of processes from that checkpoint. A process
// also leaves (detaches) at a checkpoint: it gives its shards to the others, which go on. If more
// processes are wanted, all processes are started again.
//
// Bundles need a network on which the processes can trust each other and the server.
package cluster
