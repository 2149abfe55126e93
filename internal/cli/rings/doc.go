// Package rings has the commands for this node's directory of rings: "cprof ring", "cprof agent"
// and "cprof find".
//
// "cprof ring" reads the rings themselves and requires no agent. The other two send requests to
// cp-agent, through the socket in the directory of rings. Formats belong to package ring, and
// salvage belongs to package drain.
package rings
