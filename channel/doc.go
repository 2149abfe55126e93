// Package channel is the vocabulary of channels: names, handler kinds, parameters, policies for
// full rings, stamps and tuple ids, and the rules that make each of them valid. The program that
// logs, the agent that drains, the table that configures and the log file all use it.
//
// The package moves no data. Memory layouts are in package ring, and file formats in logstore.
package channel
