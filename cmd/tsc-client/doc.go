// Command tsc-client is a node's part in measuring, as a separate process. It answers probes, and
// runs trains with other nodes by order of a tsc-server or of "cprof relate". The work is in
// package tscclient. Here are the configuration and the signals. A node that runs cp-agent needs no
// tsc-client, because the agent does the same work.
package main
