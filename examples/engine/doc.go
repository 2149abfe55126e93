// Package engine has what the demonstrations of engines share. It starts and stops the processes
// of clusters on the JVM, offers them events by a schedule that does not wait, and runs a
// demonstration from its flags to its result. It compares what an engine says of its latencies with
// what was measured, and searches for the throughput that an engine sustains. Each process has a
// deadline, a log file and a limit on its memory. A cluster listens on the loopback interface only.
package engine
