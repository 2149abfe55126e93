// Command natssearch finds the throughput that a NATS JetStream server sustains. It shows how to
// search for the limit of an engine of your own.
//
//	go run ./examples/natssearch                      print the limit and the latency at each load
//	go run ./examples/natssearch -json > nats.json    write both for "cprof gen plot"
//
// The server runs in this process, and keeps one stream in a file. An engine requires two things: a
// generator.Sink that takes tuples without waiting, and a call of Search.Done for each tuple that
// comes out.
package main
