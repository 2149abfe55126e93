// Package tscratio relates the counters of two nodes: constraints go in, a relation comes out.
//
// A packet that leaves one node and arrives at another proves one inequality about the two
// counters: the packet was sent before it was received. With many such constraints, and an
// assumption about how steadily the counters run, the package translates a reading of one counter
// into cycles of the other. The answer is an interval. The package computes durations, orders and
// rates from such intervals.
//
// The package is pure mathematics. It reads no clock, opens no socket and no file, logs nothing,
// and imports nothing but the standard library. It does not decide when to measure. It uses seconds
// only through the nominal rate, which converts the window and the extrapolation limit into cycles.
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
// # Symbols
//
//	A, B      the two nodes of a pair
//	φ         the function from the count of B's counter to the count of A's
//	b, a      the readings of B and of A that one constraint compares: φ(b) ≥ a or φ(b) ≤ a
//	y         the reading that is translated, and the centre of a window
//	c         the distance of a constraint's reading from y, with the wander added
//	p, r      the unknowns of a window: the value of φ at y, and the mean rate
//	W, w      Assumptions.Window, the stated window's half-length, and the wander
//	k         the length of a window, in stated windows
//	w_min     Relation.Least, the smallest wander with which the constraints are possible
//	w_max     Assumptions.MaxWander, the largest wander for which constraints are kept
//
// Comments and names use the symbols for a relation from B to A. A relation from A to B uses them
// with the nodes exchanged.
//
// # What is assumed
//
// A bound is true if
//
//   - around any reading there is a rate r such that the relative rate of the two counters stays
//     within r·(1 ± w) in the stated window, which is ± Assumptions.Window long;
//   - readings that two cores of a node give at one moment differ by at most its core slack;
//   - a counter that reads c has counted at least c and at most c + its quantum;
//   - each stamp's interval contains the true reading, and no epoch is broken. For stamps that the
//     kernel took, this needs what StampsAssumed lists.
//
// If a value rests on third nodes, the same is assumed of these nodes. ThirdNodes says how many of
// them may break the assumptions without making the bound wrong. By default, one of them may, in
// any manner.
//
// Constraints can refute the first assumption but never confirm it. They refute every wander below
// Relation.Least. If the declared wander of a relation is less than twice Relation.Least, the
// relation is Suspect, and its bounds are estimates.
//
// # What is rounded
//
// Counter values are 64-bit integers. Differences between them are computed in 64 bits, and
// products of differences in 128 bits, within limits that rule out overflow (wide.go). The
// translation of y is the range of p in a linear programme. The programme's inequalities are the
// constraints in the window around y. The programme is solved at chosen readings, the knots. Every
// decision on the way compares exact products. Each result is one exact quotient, rounded outward:
//
//   - the wander over a distance is rounded up to a whole cycle, which loosens the constraint
//     (evidence.go);
//   - the ends of p are rounded to whole cycles, and the ends of r to 2⁻⁴⁸ (polygon.go);
//   - between knots each end of the interval follows a line whose slope is rounded outward to 2⁻⁴⁰.
//     The line is a chord on the outer side of a convex or concave function (relate.go);
//   - w_min is rounded down (chord.go).
//
// Some questions have no answer. If a reading or a rate is so far from the constraints that the
// wander allows any value, the error is ErrBeyondLimit. If a reading is from before the other
// counter began, or if a duration does not fit 64 bits, the error is ErrOutOfRange.
//
// Floating point is used only for display.
package tscratio
