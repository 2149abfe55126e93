// Package clock is the replay clock. It gives each event of a distributed program a stamp. The
// stamps of two events show whether the two could have happened in either order.
//
//	e := clock.Uniform(100)          // clocks of two processes differ by at most 100 epochs
//	c := clock.New(3, e)             // the clock of process 3
//	c.Send(epoch)                    // at an event of the process; epoch counts up with its time
//	message = c.Stamp().AppendTo(message, e)
//	err := received.Decode(message, e)
//	c.Receive(epoch, &received)      // at the receiver
//	order := clock.Compare(&a, &b, e)
//
// One event is ordered before another if a chain of messages leads from the first to the second
// (causality), or if their times are further apart than clocks may differ (time). Other events are
// concurrent: a replay may take them in either order. No event is ordered against causality. But
// stamps also order some events that could have happened in either order: the method History.Forced
// of package replay counts such pairs.
//
// The clock is that of I. K. Lagwankar, Tracing Distributed Algorithms Using Replay Clocks
// (Michigan State University, 2024), with corrections. Its epsilon may differ for each process, and
// change with time (Epsilons). A stamp holds only those epochs that do not already follow from the
// process's time. The cost of an operation depends on how many epochs the stamps hold, and not on
// the number of processes.
//
// The package reads no clock and knows no units: the caller decides what an epoch is. The package
// imports only the standard library, so that programs can embed it. FORMAT.md describes the bytes
// of a stamp, which are the same in C and Java.
package clock
