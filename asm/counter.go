package asm

// Counter reads the counter after all earlier instructions have executed. Use it for the stamp of
// an event. On amd64 it executes RDTSCP. On arm64 it executes ISB, and then reads CNTVCT_EL0.
func Counter() uint64

// CounterUnordered reads the counter without waiting for earlier instructions. On amd64 it executes
// RDTSC. On arm64 it reads CNTVCT_EL0 without an ISB.
func CounterUnordered() uint64

// EdgeOpen reads the counter before any later instruction starts.
func EdgeOpen() uint64

// EdgeClose reads the counter after all earlier instructions are done and their stores are visible
// to all cores.
func EdgeClose() uint64

// LoopCounter reads the counter n times in one loop without calls, and returns the last value. In
// this product's documents, the time for one such reading is the unit of costs.
func LoopCounter(n uint64) uint64

// LoopCounterUnordered does what LoopCounter does, with unordered readings.
func LoopCounterUnordered(n uint64) uint64
