// Command cp-agent is the daemon of a node: it keeps what the node's programs log. The work is in
// package agent. Here are the configuration, the signals, and the code that gives up privileges.
package main
