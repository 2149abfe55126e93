// Package rings has the commands for this node's directory of rings: "cprof ring", "cprof agent",
// "cprof capture", "cprof find" and "cprof hot".
//
// "cprof ring" reads the rings themselves and requires no agent. The other commands send requests
// to cp-agent, through the socket in the directory of rings. Formats belong to package ring, and
// salvage belongs to package drain.
package rings
