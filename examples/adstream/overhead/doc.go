// Command overhead measures what instrumentation costs the job of command adstream:
//
//	go run ./examples/adstream/overhead
//
// While the job runs its channels are put in use and out of it, in turns of some milliseconds of processor time: with every event kept and drained by
// another process (full), and with channels whose handler discards (null). Each pair of stretches, with and without, gives a ratio; the
// table has what they say with its 95 % interval, and beside it what the number of log calls and the cost of one say. docs/performance.md tells how to
// read it.
//
// Without is not a build without instrumentation: the log calls are those of a nil Channel, each a compare. The table has what that costs.
package main
