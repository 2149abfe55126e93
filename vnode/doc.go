// Package vnode makes virtual nodes. A virtual node has a counter and a CLOCK_REALTIME that are
// known functions of the machine's physical counter and clock.
//
// Real nodes on one machine share one counter and one clock. So with such nodes, a test would not
// see an error in the mathematics that relates two counters. A virtual node has clocks of its own.
// They differ from the physical clocks as another machine's clocks do, and the truth about them is
// known exactly:
//
//	Counter    offset of up to 64 bits, rate, wander of the rate, steps, quantum
//	Realtime   offset, frequency and tick changes, slews, steps; the matching answers of adjtimex
//	           and of a step timer
//
// The package implements everything twice, so that results can be compared with the truth. Counter
// and Realtime are the fast implementation, which is used where stamps are taken: fixed-point
// arithmetic on tables. Truth and, in the tests, RealtimeTruth are the second one: the defining
// formulas, term by term, in big integers. They also compute the inverse: all physical instants at
// which a clock shows a given reading. Truth also translates a reading of one node's counter to
// another node's. Tests compare every interval with these results. The two implementations share
// only the configuration and the knots of the wander. They agree to the last bit, even where the
// counter wraps around.
//
// # The counter
//
// For a physical reading p, let n = p - Origin be the physical cycles since the origin. All rates
// are in units of 2^-40. Then
//
//	V(p) = Start + floor( integral from 0 to n of (1 + Rate + wander(t)) dt ) + steps until p
//	       modulo 2^64
//	reading = V - V mod Quantum
//
// wander(t) is piecewise linear between knots. The number of cycles from one knot to the next is a
// power of two, so the integral is exact in integers. Before the first knot wander(t) has its first
// value, and after the last knot its last value. V never goes back, except at a negative step,
// which models a reset of the counter.
//
// The wander w is defined as in tscratio. It is the smallest number such that each window has some
// rate r, and all rates in the window are within r(1 ± w). In each window this is (max - min)/(max
// + min). In general, the mean of a window is not in the middle of its range, so a rate may differ
// by up to 2w from that mean. The wanders of two nodes add up: if each is within w/2 in a window,
// the relative rate is within w, exactly and not just to first order. PairWander_2e40 computes the
// wander for two given nodes.
//
// # The clock
//
// The virtual CLOCK_REALTIME follows the physical one at a rate of 1 + (Freq + 6,553,600·(Tick −
// 10,000))/65,536,000,000, plus slews and steps. adjtimex(2) defines frequency and tick in this
// way. If the physical clock is itself adjusted, the two rates multiply; Timex reports the product.
//
// Nothing in this package reads a clock. Everything is immutable after New and safe for concurrent
// use.
package vnode
