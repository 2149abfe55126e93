// Package drain moves what programs logged from rings into log files, each record exactly once.
//
//	d, err := drain.Start(ring.DefaultDirectory(), drain.Options{Logs: "logs"})
//	…
//	err = d.Close()
//
// There is one drainer for a directory of rings. It finds rings as they appear, keeps the content
// of each in a log, and changes their settings as the handler table says. It removes the rings of
// ended programs once everything is safe.
//
// The log decides the position. The drainer writes a block first, and then moves the ring's head. A
// drainer that dies in between finds in the log what it had written, and continues after it.
// Nothing else is kept anywhere.
//
// # Cost
//
// Memory: [WorkerBytes] for each worker, beside the shared memory of the rings. Each ring takes
// some kilobytes, and 64 bytes for each block of its current segment. Nothing grows with the number
// of records that wait: if the disk is slower than the programs, rings fill, and their policy
// decides.
//
// Processor: a worker looks at a ring before a quarter of it can have filled at the highest recent
// rate, and at the latest after Options.Poll. If nothing comes at all, it looks after up to four
// times that. So a burst after silence can fill a ring before the first look. With policy block the
// program then waits for it, with drop it drops.
//
// The package knows nothing about networks, runs or the meaning of events.
package drain
