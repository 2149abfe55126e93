// Package conformance tests the libraries of all languages in the same way. Programs in Go, C and
// Java get the same orders. The same drainer writes what they logged. The logs must then have the
// same content. Java takes part if CLOUDPROFILER_TEST_JAVA is set, as "make java-sdk" does.
//
// A library in another language needs a program like sdk/c/test/writer.c, and a line in the
// variable writers. The package contains only tests.
package conformance
