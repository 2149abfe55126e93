// Package placement puts the operators of a streaming job on nodes, so that the job's end-to-end
// latency is as small as possible.
//
// A Job says how long each operator works on a tuple, how many tuples it gets, how many cores each
// node has, and how long a tuple travels from node to node. Latencies are ranges. Solve minimises
// the upper end of the end-to-end latency, and returns a lower bound that no placement can beat.
// Better compares two placements. It says whether one of them is faster for all latencies within
// their ranges.
//
// # A path through the package
//
//	Job, Check      what is known of the job (job.go)
//	Problem         a checked job: End, Loads, Better (problem.go, better.go)
//	Solve           bound, first placement, search and proof together (solve.go)
//	limits, group   the lower bound (limits.go, group.go)
//	greedy, search  a good placement (greedy.go, search.go)
//	prove           the best placement, if the job is small enough (prove.go)
//
// The package knows neither files nor servers. Package placement/job reads jobs, and cprof place
// asks a server for latencies.
package placement
