// Command cp-agent is the daemon of a node: it keeps what the node's programs log. The work is in
// package agent. Here are the configuration, the signals and the privileges that it gives up.
package main
