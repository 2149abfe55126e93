// Package ring is the shared memory between a program that logs and the drainer that keeps the
// records. It has the layout of a ring file (FORMAT.md), its two ends, and the rules of ownership
// and liveness.
//
// A ring belongs to one process and one open. Create creates it and returns the producer's end. The
// program writes through that end, and no other process may. OpenConsumer returns the consumer's
// end, and Open one that only reads. Both trust nothing that they read. They check the file before
// they map it, copy records out of it before they look at them (records.go), and report a file that
// shrinks as an error.
//
// The package does not decide what a channel keeps (package handlers), and it does not store it
// (packages drain and logstore). It runs on Linux only: it needs tmpfs, open-file-description locks
// and MADV_DONTFORK.
package ring
