// Package job reads what cprof place needs from files: a job with its operators, edges and nodes
// (FORMAT.md), and latencies between nodes.
//
// Package placement does the rest. This package asks no server: the caller passes the latencies.
package job
