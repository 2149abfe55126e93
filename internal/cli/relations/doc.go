// Package relations is the commands about how two counters relate: relate and relation.
//
// Command relate measures two nodes by hand and writes a relation file. The group relation shows
// and plots such a file, and translates with it. The mathematics belong to package tscratio.
package relations
