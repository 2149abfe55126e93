// Package reexec starts this program again, for tests that need a second process: one that can be killed, or that has locks
// of its own.
//
// A foreign binary cannot be started by name: where tests run under an emulator, that is started, and given the binary.
package reexec
