// Package rings is the commands that look into this node's directory of rings: ring and agent.
//
// The group ring reads the rings themselves and requires no agent. The group agent asks cp-agent,
// through the socket in the directory of rings. Formats belong to package ring, and salvage belongs
// to package drain.
package rings
