// Command cp-agent is the daemon of a node. It writes to disk what the node's programs log. Package
// agent does the work. This command contains the configuration, the signals, and the code that
// gives up privileges.
package main
