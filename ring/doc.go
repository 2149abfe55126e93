// Package ring is the shared memory between a program that logs and the drainer that keeps what it logged: the layout
// of a ring file (FORMAT.md), its two ends, and the rules of ownership and liveness.
//
// A ring belongs to one process and one open. Create makes it and returns the producer's end, which the
// program writes through and which no other process may write. OpenConsumer returns the consumer's end, and Open one that only looks
// on. Both trust nothing that they read: the file is checked before it is mapped, records are read
// out of it before they are looked at (records.go), and a file that shrinks becomes an error.
//
// The package neither decides what a channel keeps (package handlers) nor stores it (packages drain and logstore).
// Linux only: it stands on tmpfs, open-file-description locks and MADV_DONTFORK.
package ring
