// Command cp-agent is the daemon of a node: it keeps what the node's programs log. What it does is in package agent; here are its
// configuration, its signals and the privileges that it gives up.
package main
