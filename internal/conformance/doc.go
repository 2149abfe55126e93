// Package conformance tests the libraries of all languages in the same way. A program in Go and a
// program in C get the same orders. The same drainer writes what they logged. The two logs must
// then have the same content.
//
// A library in another language needs a program like sdk/c/test/writer.c, and a line in the
// variable writers. The package contains only tests.
package conformance
