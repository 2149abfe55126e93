// Package record contains the commands for one machine: record runs a program and says where its
// tuples spent their time, and attach captures the messages of a running program.
//
// Both run an agent in this process, with its own rings and logs. They need no server: one machine
// has one counter, so there is nothing to relate. What they record becomes an ordinary run. They
// answer like "cprof analyze": package cli passes in the function that prints the answer.
package record
