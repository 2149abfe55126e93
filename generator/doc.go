// Package generator loads a system with tuples at an exact rate, in a known order and at known
// times. It also searches for the throughput that the system sustains.
//
//	send     Sender     preloaded tuples, each at its own moment of a Schedule, a Sink per thread
//	receive  Receiver   tuples from a Source per connection; it checks each id
//	decode   Factory    as Receiver, with decoding off the consumer's thread: the object factory
//	search   Search     the highest rate that an engine sustains, and why no higher one
//
// # What a tuple's time is
//
// A schedule fixes when each tuple is due before the run begins. Nothing moves those times. Where
// the engine pushes back or this machine falls behind, tuples are sent late. The sender counts late
// tuples by their cause. A latency begins when a tuple was due, and so includes the time that the
// tuple waited before it could be sent: it is safe from coordinated omission. Both moments are
// logged (package handlers). Channel generator#T/intended holds when each tuple of thread T was
// due. Channel generator#T/send holds when it was sent.
//
// # What an engine is
//
// An engine is anything that takes tuples: [Sink] has two methods. [Push] and [Pull] are sinks and
// sources over ZeroMQ, one connection for each thread; FORMAT.md describes their messages. Only
// [Search] asks more of an engine: it must say which tuples came out of it.
//
// # What it does not do
//
// It compares no counters of two machines: latencies between machines come from the logs, with
// their bound. It draws nothing: package internal/plot draws what a search found. It changes
// scheduling and affinity only where an option says so, and only of senders.
package generator
