// Package simrun makes runs of jobs that never happened. From a seed it makes run directories with
// logs and relations whose truth is known. They are for tests and benchmarks of code that reads
// runs.
//
// Each node's counter has a start and a rate, and no wander. Time is counted in cycles of the true
// clock, which no node has.
package simrun
