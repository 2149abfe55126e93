// Command overhead measures what instrumentation costs the job of command adstream:
//
//	go run ./examples/adstream/overhead
//
// While the job runs, its channels are turned on and off, for stretches of some milliseconds of
// processor time. This is done twice: with full, every event is kept and another process drains;
// with null, the handler discards every event. Each pair of stretches, one on and one off, gives a
// ratio. The table shows what the ratios say, with a 95 % interval. Below it is the share that
// follows from the number of log calls and the cost of one. docs/performance.md says how to read
// it.
//
// Off is not a build without instrumentation: each log call still finds a nil Channel. The table
// shows what that costs.
package main
