// Package asm reads this CPU's counter, and checks whether the counter can measure time.
//
// On amd64 the counter is the time-stamp counter (TSC); on arm64 it is the virtual count
// (CNTVCT_EL0). Every value is a 64-bit count. The package does not deal with seconds, rates or
// other machines. Package host measures how the counter of one node behaves, and package tscratio
// relates the counters of two nodes.
//
// # Which reading to use
//
// A CPU executes instructions out of program order. The stamp of an event and the two readings
// around a measured piece of code need different guarantees:
//
//	Counter           The stamp of an event. The counter is read after all earlier instructions
//	                  have executed. Later instructions may have started.
//	CounterUnordered  A stamp at half the price on amd64. The counter may be read early or late by
//	                  the depth of the reorder window: some hundred instructions.
//	EdgeOpen          The reading before the measured code. The counter is read before any later
//	                  instruction starts.
//	EdgeClose         The reading after the measured code. The counter is read after all earlier
//	                  instructions are done, stores included.
//
// Around a system call Counter is enough on amd64, because entering and leaving the kernel orders
// the other instructions.
package asm
