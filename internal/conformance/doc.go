// Package conformance holds every language's library against the same expectations: one program in Go and its twin in C are told the same
// things, the same drainer takes what they logged, and the logs must say the same.
//
// A library in another language gets a twin of sdk/c/test/writer.c, and its line in writers. The package is tests alone.
package conformance
