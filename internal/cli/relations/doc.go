// Package relations contains the commands about how two counters relate: relate and relation.
//
// The command relate measures two nodes without a server, and writes a relation file. The commands
// of the group relation show and plot such a file, and translate readings with it. The mathematics
// are in package tscratio.
package relations
