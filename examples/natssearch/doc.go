// Command natssearch finds the throughput that a NATS JetStream server sustains: how to search for the limit of an engine of your own.
//
//	go run ./examples/natssearch                       the answer, and the latency over the load
//	go run ./examples/natssearch -json > nats.json     for "cprof gen plot"
//
// The server runs in this process, with one stream in a file. An engine needs two things: a generator.Sink that takes tuples without
// waiting, and a call of Search.Done for each tuple that comes out.
package main
