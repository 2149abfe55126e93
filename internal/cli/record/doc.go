// Package record contains the commands for one machine: record, which runs a program and answers
// where its tuples spent their time, and attach, which captures the messages of a running program.
//
// Both run an agent in this process, with rings and logs of its own, and need no server: one
// machine has one counter, so there is nothing to relate. What they record becomes a run like any
// other. The answer is that of "cprof analyze", which package cli passes in.
package record
