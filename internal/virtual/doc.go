// Package virtual puts a virtual node's clocks in the place of a node's own: it wraps the functions
// that package minrtt is given, and makes configurations whose pairs wander by at most a given
// share. Tests, benchmarks and the demonstration use it.
//
// What a virtual clock shows is left to package vnode. Nothing here is for a real node.
package virtual
