package agent

import "runtime/debug"

// LimitMemory has the Go runtime of a process that does nothing but run an agent collect garbage early: its heap is small, and lives next
// to programs that need the memory more.
func LimitMemory() {
	debug.SetMemoryLimit(256 << 20)
	debug.SetGCPercent(50)
}
