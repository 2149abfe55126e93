// Package asm reads the counter and the core that it was read on, and says what this CPU's counter can do.
//
// On amd64 the counter is the time-stamp counter (TSC); on arm64 it is the virtual count (CNTVCT_EL0).
// Every value is a 64-bit count. Nothing here knows about seconds, rates or other machines: the
// proofs about a node's counter are in package host, those about two counters in package tscratio.
//
// # Which reading to use
//
// A stamp and the edge of an interval want different things of the CPU, which is free to execute
// instructions out of program order:
//
//	Counter            after all earlier instructions have executed; later ones may have started. The stamp of an event.
//	CounterUnordered   anywhere near. Half the price of Counter on amd64, and its stamp may be early or late by the
//	                   depth of the reorder window (some hundred instructions).
//	EdgeOpen           not after anything that follows it. The opening edge of an interval.
//	EdgeClose          not before anything that precedes it is done, stores included. The closing edge.
//
// Around a system call Counter is enough on amd64: entering and leaving the kernel orders the rest.
package asm
