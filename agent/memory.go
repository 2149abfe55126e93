package agent

import "runtime/debug"

// LimitMemory makes the Go runtime collect garbage early. It is for a process that only runs an
// agent, whose heap is small, and which shares the machine with programs that need the memory more.
func LimitMemory() {
	debug.SetMemoryLimit(256 << 20)
	debug.SetGCPercent(50)
}
