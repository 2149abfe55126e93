// Package sim simulates networks of millions of nodes. The ideas are PeerSim's: a node is a number
// with protocols, a protocol has behaviour and state, a linkable keeps a node's neighbours, a
// transport delays messages, and a control looks at the network or changes it.
//
// The package is the engine. It knows no protocol and reads no configuration: sim/library has the
// protocols, and sim/config reads PeerSim's files. It opens no connection: sim/cluster runs one
// simulation in several processes.
//
// # Time
//
// Time is in nanoseconds. The event engine delivers the events of a node in the order (time, round,
// source, number). The round counts the events without delay that led to the event: an event that
// is posted for the present moment belongs to the next round of that moment. The cycle engine gives
// control to each node once a cycle, one after the other.
//
// # Views
//
// A blind component sees only nodes whose state is in this process: a [Protocol] sees its own node,
// [Observer.Measure] sees one shard, and the function of [World.Each] sees one node. A blind
// component works unchanged in several processes. An aware component uses [World.Size],
// [World.Living] and [World.Up], which know the whole network in each process. Before it uses the
// state of a node, it asks [World.Has].
//
// # Shards
//
// The state of a protocol lies in columns, which are cut into shards of ShardNodes nodes. A shard
// also has the events of its nodes. A worker works on shards, a checkpoint consists of shards, and
// shards move from one process to another. The result does not depend on which worker has which
// shard. So any number of workers gives the same result, bit by bit:
//
//   - An event changes only its own node. The workers proceed in windows that are no longer than
//     the smallest delay of a message (the lookahead), so a message never arrives in the window in
//     which it was sent.
//   - Each node draws from a random stream of its own, whose values depend only on the seed, the
//     node and a counter.
//   - Controls run between two windows. They measure shard by shard, and combine the parts in the
//     order of the shards, so that sums of floats are always rounded in the same way.
package sim
