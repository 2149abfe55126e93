// Package reexec starts this program again, for tests that require a second process. A test can
// kill such a process, and the process has locks of its own.
//
// If tests run under an emulator, the system cannot start their binary directly. reexec then starts
// the emulator with the binary as its argument.
package reexec
