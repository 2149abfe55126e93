// Package truth is what only a run of virtual nodes knows about their counters: the true reading of
// one counter while another had a given reading. Commands pass it to package analysis, which
// compares durations with it.
//
// A reading of a virtual counter was made by the counter's fast implementation. That implementation
// finds the physical readings at which the counter shows the reading. The exact implementation then
// translates these physical readings to the other counter (package vnode).
//
// The package judges nothing. It translates only counters, not clocks.
package truth
