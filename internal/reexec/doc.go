// Package reexec starts this program again, for tests that require a second process: a process that
// can be killed, or that has locks of its own.
//
// If tests run under an emulator, their binary cannot be started directly. reexec then starts the
// emulator with the binary as its argument.
package reexec
