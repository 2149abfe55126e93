package asm

// CounterCore reads the counter. The core is always 0, because arm64 has no instruction that reads
// both. So data with a shard for each core has only one shard on arm64.
func CounterCore() (counter uint64, core uint32) { return Counter(), 0 }
