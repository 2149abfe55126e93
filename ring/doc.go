// Package ring is the shared memory between a program that logs and the drainer that stores the
// records. It implements the layout of a ring file (FORMAT.md), the two ends of a ring, and the
// rules of ownership and liveness.
//
// Exactly one process opens a ring for logging, and only once. Create creates the ring and returns
// the producer's end. OpenConsumer returns the consumer's end, and Open returns an end that only
// reads. OpenConsumer and Open trust nothing in the file. They check the file before they map it,
// and report a file that shrinks as an error. They copy records before they use them (records.go).
//
// The package does not decide which events a channel keeps (package handlers), and does not store
// records (packages drain and logstore). It runs only on Linux: it needs tmpfs,
// open-file-description locks and MADV_DONTFORK.
package ring
