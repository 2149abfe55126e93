// Package channel is the vocabulary of channels: names, handler kinds, parameters, policies for
// full rings, stamps and tuple ids. It also checks whether each of these is valid. Programs that
// log, the agent, the handler table and log files all use this vocabulary.
//
// The package moves no data. Memory layouts are in package ring, and file formats in logstore.
package channel
