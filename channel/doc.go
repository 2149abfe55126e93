// Package channel is the vocabulary of channels: names, handler kinds, parameters, full-ring policies, stamps and
// tuple ids, and the rules that make each of them valid. The program that logs, the agent that drains, the table that
// configures and the log file all speak it.
//
// It moves no data and knows no memory layout (package ring) and no file format (package logstore).
package channel
