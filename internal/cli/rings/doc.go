// Package rings is the commands that look into this node's directory of rings: ring and agent.
//
// The group ring reads the rings themselves and needs no agent. The group agent asks cp-agent, by
// the socket that lies among the rings. Formats belong to package ring, rescue to package drain.
package rings
