// Package rings has the commands for this node's directory of rings: "cprof ring" and "cprof
// agent".
//
// "cprof ring" reads the rings themselves and requires no agent. "cprof agent" sends requests to
// cp-agent, through the socket in the directory of rings. Formats belong to package ring, and
// salvage belongs to package drain.
package rings
