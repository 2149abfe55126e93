package asm

// Counter reads the counter after all earlier instructions have executed, as for the stamp of an
// event (RDTSCP on amd64, ISB and CNTVCT_EL0 on arm64).
func Counter() uint64

// CounterUnordered reads the counter without ordering (RDTSC on amd64, CNTVCT_EL0 alone on arm64).
func CounterUnordered() uint64

// EdgeOpen reads the counter before anything that follows it starts.
func EdgeOpen() uint64

// EdgeClose reads the counter after everything that precedes it is done and visible.
func EdgeClose() uint64

// LoopCounter reads the counter n times in one loop without calls, and returns the last value. The
// time for one reading is the unit of the costs in this product's documents.
func LoopCounter(n uint64) uint64

// LoopCounterUnordered does the same as LoopCounter with unordered readings.
func LoopCounterUnordered(n uint64) uint64
