// Package paths finds the paths of requests in the captured messages of a run: which calls a
// request led to, how sure that is, and where its time went.
//
//	answer, err := paths.Of(run, paths.Options{Reference: reference})
//
// The package makes calls from messages (observe.go) and lets a method of package blackbox/link
// find their causes. A call without a cause begins a path. Paths whose trees are equal follow the
// same pattern (pattern.go). All durations are intervals that contain the truth, in cycles of one
// node. So package paths needs no synchronised clocks.
package paths
