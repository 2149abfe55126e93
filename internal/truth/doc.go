// Package truth is what only a run of virtual nodes knows about their counters: the true reading of
// one while another had a given reading. Commands give it to package analysis, which compares
// durations with it.
//
// For a reading of one counter, the fast implementation of a virtual counter, which made the
// reading, finds the physical readings that show it. The exact implementation translates these to
// the other counter (package vnode).
//
// The package judges nothing. It knows nothing of clocks: it translates counters only.
package truth
