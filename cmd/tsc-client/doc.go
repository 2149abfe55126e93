// Command tsc-client is a node's part in measuring, as a process of its own: it answers probes and runs trains with other nodes, by
// order of a tsc-server or of "cprof relate". What it does is in package tscclient; here are its configuration and its signals.
// A node that runs cp-agent needs no tsc-client: the agent is one.
package main
