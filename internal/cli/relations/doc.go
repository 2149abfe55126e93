// Package relations is the commands about how two counters relate: relate and relation.
//
// Command relate measures two nodes by hand and writes a relation file; the group relation shows,
// plots and translates with one. The mathematics belong to package tscratio.
package relations
