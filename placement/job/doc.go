// Package job reads the job file that cprof place needs: the job's operators, edges and nodes, and
// perhaps the latencies between nodes (FORMAT.md).
//
// Package placement does the rest. This package asks no server: if the file lists no latencies, the
// caller passes them.
package job
