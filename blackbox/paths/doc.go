// Package paths finds the paths of requests in the captured messages of a run: which calls a
// request led to, how sure that is, and where its time went.
//
//	answer, err := paths.Of(run, paths.Options{Reference: reference})
//
// The package makes calls from messages (observe.go) and lets a method of package blackbox/link
// find their causes. A call without a cause begins a path. Paths whose trees are equal follow the
// same pattern (pattern.go). If a run has too many calls for the memory, they are sorted in a
// temporary file (found.go) and linked by a stream, and each tree is measured as soon as no later
// call can join it (stream.go). Both ways of linking give their trees to a collector (collect.go).
// All durations are intervals that contain the truth, in cycles of one node. So package paths needs
// no synchronised clocks.
package paths
