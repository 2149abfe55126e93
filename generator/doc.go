// Package generator loads a system with tuples at an exact rate, in a known order and at known
// times. It also searches for the throughput that the system sustains.
//
//	send     Sender     preloaded tuples, each at its own moment of a Schedule, a Sink per thread
//	receive  Receiver   tuples from a Source per connection; it checks each id
//	decode   Factory    as Receiver, but threads of its own decode tuples: the object factory
//	search   Search     the highest rate that an engine sustains, and why no higher one
//
// # What a tuple's time is
//
// Before the run begins, a schedule fixes when each tuple is due. Nothing moves these times. If the
// engine refuses tuples, or if this machine falls behind, tuples are sent late. The sender counts
// late tuples by their cause. A latency begins when the tuple was due, and so includes the time
// that the tuple waited before it could be sent. This makes latencies safe from coordinated
// omission. Two moments of each tuple are logged (package handlers). Channel generator#T/intended
// records when each tuple of thread T was due. Channel generator#T/send records when the tuple was
// sent.
//
// # What an engine is
//
// An engine is anything that takes tuples through a [Sink], which is an interface of two methods.
// [Push] and [Pull] are a sink and a source over ZeroMQ, with one connection for each thread;
// FORMAT.md describes their messages. Only [Search] requires more of an engine: the engine must
// report which tuples came out.
//
// # What it does not do
//
// The package compares no counters of two machines: latencies between machines are computed from
// the logs, with their bounds. It draws nothing: package internal/plot draws what a search found.
// It changes the scheduling and the core affinity of threads only for senders, and only if an
// option asks for it.
package generator
