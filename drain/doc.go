// Package drain moves records from rings to log files. Programs write the records into the rings,
// and the drainer writes each record exactly once to a log.
//
//	d, err := drain.Start(ring.DefaultDirectory(), drain.Options{Logs: "logs"})
//	…
//	err = d.Close()
//
// There is one drainer for a directory of rings. It finds rings as they appear, stores the content
// of each ring in a log, and applies the settings of the handler table. When a program has ended
// and everything in its ring is safe in the log, the drainer removes the ring.
//
// The log alone determines where draining continues. The drainer first writes a block, and then
// moves the ring's head. If the drainer dies in between, the next drainer finds the block in the
// log and continues after the block. No other state is stored.
//
// # Cost
//
// Memory: [WorkerBytes] for each worker, and the shared memory of the rings. Each ring takes some
// kilobytes, and 64 bytes for each block of its log that is not yet in an index. There are at most
// about 4,000 such blocks. Memory does not grow with the number of waiting records: if the disk is
// slower than the programs, the rings fill, and their policies decide what happens.
//
// Processor: a worker looks at a ring before a quarter of the ring can fill at the highest recent
// rate, and at the latest after Options.Poll. If no records arrive in any of its rings, the worker
// waits longer before it looks again, up to four times Options.Poll. So a burst after silence can
// fill a ring before the worker looks. If the ring's policy is "block", the program then waits for
// the worker. If it is "drop", the program drops events.
//
// The package does not deal with networks, runs or the meaning of events.
package drain
