// Command overhead measures what instrumentation costs the job of command adstream:
//
//	go run ./examples/adstream/overhead
//
// While the job runs, its channels are turned on and off, for stretches of some milliseconds of
// processor time. This is done in two jobs. In one job, called "full", every event is kept and
// another process drains the rings. In the other job, called "null", the handler discards every
// event. Each pair of stretches, one on and one off, gives a ratio. The table shows the effect that
// the ratios imply, with a 95 % interval. Below it is the share that follows from the number of log
// calls and the cost of one call. docs/performance.md explains how to read the table.
//
// Off does not mean a build without instrumentation: each log call still finds a nil Channel. The
// table shows the cost of such a call.
package main
