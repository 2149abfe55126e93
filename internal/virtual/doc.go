// Package virtual puts a virtual node's clocks where a node's own would be: it wraps the functions that package minrtt
// is given, and makes configurations whose pairs wander by no more than is said. Tests, benchmarks and the demonstration
// use it.
//
// What a virtual clock shows is package vnode's to say. Nothing here is for a node that measures.
package virtual
