package asm

// CounterCore reads the counter, and the number of the core on which it was read, in one
// instruction.
func CounterCore() (counter uint64, core uint32)
