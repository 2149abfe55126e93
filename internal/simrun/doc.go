// Package simrun makes runs of jobs that never happened: a run directory with logs and relations, from a seed, whose truth is known. Tests
// and benchmarks of what reads runs have them from here.
//
// The nodes' counters have a start and a rate each, and no wander. Time is counted in cycles of a clock that no node has.
package simrun
