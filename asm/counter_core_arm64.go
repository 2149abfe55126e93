package asm

// CounterCore reads the counter. The core is always 0, because arm64 has no instruction that reads
// both: whatever is sharded by core has one shard there.
func CounterCore() (counter uint64, core uint32) { return Counter(), 0 }
