// Package reexec starts this program again, for tests that need a second process: one that can be
// killed, or that has locks of its own.
//
// If tests run under an emulator, a foreign binary cannot be started by name. Then the emulator is
// started, and given the binary.
package reexec
