// Package logstore is the log format. A log is a sequence of files that describe themselves.
// Readers return all whole blocks, whatever the state of the file. FORMAT.md describes every byte.
//
// A log contains the rows of one ring: events, and rows about changes of settings and about missing
// events. [Writer] appends blocks of rows to one file, and [Log] to as many files as necessary.
// [Reader] reads a file from beginning to end, [File] reads chosen parts, and [LogReader] reads the
// segments of a ring as one log. [Salvage] makes an undamaged file from a damaged one. All readers
// return the same rows. A [Report] lists the sequence numbers of missing rows.
//
// # Size and speed
//
// In a compressed block, a counter takes about as many bits as the entropy of its distance from the
// previous counter, and consecutive ids take nothing: see column.go. On average, a record must take
// at most 1.15 × the entropy of its counter and id: TestSizeStaysNearEntropy checks this. In a
// second, one core must write 2 GB of records with consecutive ids, or read as much. For other ids,
// compressing takes twice as long. If a writer has no time to compress a block, it sets
// [Block.Hurried]. Then one core must write 2 GB of any records in a second. BenchmarkEvents
// measures all of this.
//
// # Limits
//
// The package does not read rings: package drain passes the rows of rings to it. It does not group
// logs into runs, as package runs does, and does not translate counters. It does not sync files: a
// log survives the death of any process, but not a crash of the machine.
package logstore
