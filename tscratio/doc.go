// Package tscratio relates the counters of two nodes: constraints go in, a relation comes out.
//
// A packet that leaves one node and arrives at another proves one inequality about the two
// counters: its send happened before its receive. From many such constraints, and an assumption
// about how steadily the counters run, the package derives what a reading of one counter is in
// cycles of the other. The answer is an interval. Durations, orderings and rates follow from it.
//
// The package is pure mathematics. It reads no clock, opens no socket and no file, logs nothing,
// and imports nothing but the standard library. It does not decide when to measure. It knows
// seconds only through the nominal rate, which says how long a window is.
//
// # A path through the package
//
//	Exchange      four stamps → two Constraints
//	Pair          constraints of two nodes, and their assumptions; Add, Check, Prune, Encode
//	Relation      what Pair.Relate derives for a wander and a direction; Translate, SameNode, Rate
//	Closure       relations of a fleet, over third nodes too; Translate, Duration, Audit
//	View, Ways    the same answers for many readings of one node, or of two, but faster
//	PaperRelate   the paper's method, for comparison
//
// # What is assumed
//
// A bound is true if
//
//   - within any window of the stated length some rate r exists such that the relative rate of the
//     two counters stays within r·(1 ± w);
//   - readings that two cores of a node give at one moment differ by at most its core slack;
//   - a counter that reads c has counted at least c and at most c + its quantum;
//   - each stamp's interval holds the true reading, and no epoch is broken. For stamps that the
//     kernel took, this rests on what StampsAssumed lists.
//
// A value that goes over third nodes assumes the same of them. ThirdNodes says how many of them may
// break these assumptions: by default one, in any manner.
//
// Constraints can refute the first assumption and never confirm it. They refute every wander below
// Relation.Least. A relation that declares less than twice Relation.Least is Suspect, and its
// bounds are estimates.
//
// # What is rounded
//
// Counter values are 64-bit integers. Differences between them are computed in 64 bits and their
// products in 128, within limits that rule out overflow (wide.go). Every decision of the linear
// programme compares exact products. Each result is one exact quotient, rounded outward:
//
//   - the wander over a distance is rounded up to a whole cycle, which loosens the constraint
//     (evidence.go);
//   - the ends of p are rounded to whole cycles, those of r to 2⁻⁴⁸ (polygon.go);
//   - between knots the bound follows a line whose slope is rounded outward to 2⁻⁴⁰. That line is a
//     chord on the outer side of a convex or concave bound (relate.go);
//   - w_min is rounded down (chord.go).
//
// ErrBeyondLimit and ErrOutOfRange refuse what cannot be answered: a reading or a rate so far from
// the constraints that the wander allows any value, a reading from before the other counter began,
// a duration that does not fit 64 bits.
//
// Floating point is used only for display.
package tscratio
