// Package conformance tests the libraries of all languages in the same way. A program in Go and its
// twin in C get the same orders, and one drainer takes what they logged. The two logs must then
// have the same content.
//
// A library in another language needs a twin of sdk/c/test/writer.c, and a line in writers. The
// package contains only tests.
package conformance
