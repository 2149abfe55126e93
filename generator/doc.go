// Package generator loads a system with tuples whose rate, order and send times mean what they say, and searches for the throughput
// that the system sustains.
//
//	send     Sender      preloaded tuples, each at its own moment of a Schedule, into a Sink per thread
//	receive  Receiver    tuples from a Source per connection, each id checked
//	decode   Factory     the same, with decoding off the consumer's thread: the object factory
//	search   Search      the highest rate that an Engine sustains, and why no higher one
//
// # What a tuple's time is
//
// A schedule fixes when each tuple is due before the run begins. Nothing moves those times: where the engine pushes back or this
// machine falls behind, tuples are sent late, and their lateness is counted, with its cause. A latency is from the moment at which a tuple was due,
// and so includes what it waited for before it could be sent: it is safe from coordinated omission. Both moments are logged
// (package handlers): channel generator#T/intended holds when each tuple of thread T was due, generator#T/send when it was sent.
//
// # What an engine is
//
// Anything that takes tuples: [Sink] is two methods. [Push] and [Pull] are sinks and sources over ZeroMQ, one connection for each
// thread; FORMAT.md says what travels there. Only [Search] asks more of an engine: to say which tuples came out of it.
//
// # What it does not do
//
// It compares no counters of two machines: latencies between them come from the logs, with their bound. It draws
// nothing: package internal/plot draws what a search found. It changes scheduling and affinity only where it is told to, and of senders alone.
package generator
