package asm

// CounterCore reads the counter. The core is always 0: arm64 has no instruction that reads both, so
// everything that is sharded by core has one shard there.
func CounterCore() (counter uint64, core uint32) { return Counter(), 0 }
