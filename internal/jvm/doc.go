// Package jvm finds the Java installations of this machine, and builds and starts the test programs
// of the Java SDK, for tests and benchmarks.
//
// It needs a checkout of this repository, make, gcc and a Java compiler. It does not need Maven.
package jvm
