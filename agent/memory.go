package agent

import "runtime/debug"

// LimitMemory makes the Go runtime collect garbage early, in a process that only runs an agent. Its
// heap is small, and it shares the machine with programs that need the memory more.
func LimitMemory() {
	debug.SetMemoryLimit(256 << 20)
	debug.SetGCPercent(50)
}
