// Package logstore is the log format. A log keeps the rows of one channel in files that explain
// themselves. Readers return all whole blocks, whatever the state of the file. FORMAT.md describes
// every byte.
//
// A log holds the rows of one ring: events, and the rows that explain and account for them.
// [Writer] appends blocks of rows to one file, [Log] to as many as it takes. [Reader] reads a file
// from beginning to end, [File] reads chosen parts, and [LogReader] reads the segments of a ring as
// one log. [Salvage] makes a whole log from a damaged one. All readers return the same rows. A
// [Report] says by sequence which rows are missing.
//
// # Size and speed
//
// In a compressed block a counter takes about the entropy of its gap, and consecutive ids take
// nothing: see column.go. The bars are 1.15 × the entropy and a tenth of a byte, and 2 GB of
// records a second on one core in both directions. TestSizeStaysNearEntropy holds the first, and
// BenchmarkEvents measures the second.
//
// # Limits
//
// The package does not know rings: package drain brings their rows here. It does not know runs:
// package runs says which logs belong together. It translates no counter. It syncs nothing: a log
// survives the death of the processes around it, but not that of the machine.
package logstore
