package agent

import "runtime/debug"

// LimitMemory makes the Go runtime collect garbage early. It is for a process that only runs an
// agent: the agent's heap is small, and the other programs on the machine need the memory more.
func LimitMemory() {
	debug.SetMemoryLimit(256 << 20)
	debug.SetGCPercent(50)
}
