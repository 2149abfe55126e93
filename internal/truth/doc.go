// Package truth knows the truth about the counters in a run of virtual nodes: the true reading of
// one counter at the moment when another counter had a given reading. Only a run of virtual nodes
// has such a truth. Commands pass the truth to package analysis, which compares durations with it.
//
// A virtual counter has two implementations in package vnode: a fast one, which made the given
// reading, and an exact one. The package first finds the physical readings at which the counter
// shows the given reading. It uses the fast implementation for that, or the exact one if the
// counter makes steps. Then the exact implementation translates these physical readings to the
// other counter.
//
// The package judges nothing. It translates only counters, not clocks.
package truth
