// Package logstore is the log format: what a channel kept, in files that explain themselves, and that are read for what is whole in
// them whatever state they are in. FORMAT.md says what every byte means.
//
// A log holds the rows of one ring: events, and beside them what is needed to understand and to account for them. [Writer] appends
// blocks of rows to one file, [Log] to as many as it takes. [Reader] reads a file from its beginning to its end, [File] from where it is
// wanted, [LogReader] the segments of a ring as one. [Salvage] makes a whole log of a damaged one. Each reader has the same rows to tell, and a
// [Report] says by sequence what is missing.
//
// # How small, how fast
//
// In a compressed block a counter takes about what its gap's entropy is, and consecutive ids take nothing: see column.go for
// how. The bars are 1.15 × the entropy and a tenth of a byte, and 2 GB of records a second on one core in both directions;
// TestSizeStaysNearEntropy holds the first, BenchmarkEvents measures the second.
//
// # What it does not do
//
// It does not know rings (package drain brings rows from there to here), nor runs (package runs says which logs belong together), and it
// translates no counter. Nothing is synced: a log survives the death of the processes around it, not that of the machine.
package logstore
