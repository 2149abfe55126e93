package asm

// CounterCore reads the counter, and the core that it was read on, in one instruction.
func CounterCore() (counter uint64, core uint32)
