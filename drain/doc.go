// Package drain moves what programs logged from rings into log files, each record exactly once.
//
//	d, err := drain.Start(ring.DefaultDirectory(), drain.Options{Logs: "logs"})
//	…
//	err = d.Close()
//
// There is one drainer for a directory of rings. It finds rings as they appear, keeps what they hold in a log each, changes
// their settings as the handler table says, and removes the rings of programs that ended once everything is safe.
//
// The log is the truth about the position. A block is written first and the ring's head is moved then, so that a drainer that
// dies in between finds in the log what it had written, and goes on behind it. Nothing else is kept anywhere.
//
// # What it takes
//
// Memory: [WorkerBytes] for each worker, beside the shared memory of the rings; for each ring some kilobytes and 64 bytes
// for each block of its current segment. Nothing grows with the number of records that wait: where the disk is slower than the
// programs, rings fill, and their policy decides.
//
// Processor: a worker looks at a ring before a quarter of it can have filled at the highest rate of late, at the latest after
// Options.Poll, and where nothing comes at all, after up to four times that. A burst after silence can therefore fill a ring before
// the first look: with policy block the program waits for it, with drop it drops.
//
// The package knows nothing of networks, runs or what events mean.
package drain
