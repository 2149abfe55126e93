// Package virtual gives a program the clocks of a virtual node in place of the machine's own. It
// wraps the functions with which package minrtt reads clocks. It also makes configurations of
// virtual nodes, such that the relative rate of any two nodes wanders by at most a given amount.
// Tests, benchmarks and the demonstration use it.
//
// Package vnode determines what a virtual clock shows. Nothing here is for a real node.
package virtual
