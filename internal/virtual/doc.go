// Package virtual replaces a node's own clocks by the clocks of a virtual node. It wraps the
// functions that package minrtt is given, and makes configurations whose pairs wander by at most a
// given share. Tests, benchmarks and the demonstration use it.
//
// Package vnode decides what a virtual clock shows. Nothing here is for a real node.
package virtual
