// Package conformance tests every language's library against the same expectations: a program in Go
// and its twin in C get the same orders, the same drainer takes what they logged, and the logs must
// say the same.
//
// A library in another language gets a twin of sdk/c/test/writer.c, and its line in writers. The
// package consists of tests alone.
package conformance
