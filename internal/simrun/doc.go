// Package simrun simulates runs for tests and benchmarks of code that reads runs. From a seed it
// makes run directories with logs and relations of jobs that never ran, so it is known what truly
// happened in them.
//
// Each node's counter has a start and a rate, and no wander. Time is counted in cycles of a true
// clock, which is the clock of no node.
package simrun
