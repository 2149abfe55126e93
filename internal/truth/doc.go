// Package truth is what a run of virtual nodes knows about their counters and no other run does: what one truly read while another read so.
// Commands hand it to package analysis, which holds durations against it.
//
// A reading is led back to the physical readings that show it by the fast implementation of a virtual counter, which made it, and from
// there to the other counter by the exact one (package vnode).
//
// It judges nothing, and it knows nothing of clocks: only counters are translated.
package truth
