// Package tscratio relates the counters of two nodes: constraints in, relation out.
//
// A packet that leaves one node and arrives at another proves one inequality about the two
// counters: its send happened before its receive. From many of these and an assumption about how
// steadily the counters run, the package derives what a reading of one counter is in cycles of the
// other, as an interval; durations, orderings and rates follow from that.
//
// It is pure mathematics. It reads no clock, opens no socket and no file, logs nothing, and imports
// nothing but the standard library. It does not decide when to measure, and it has no notion of
// seconds beyond the nominal rate that says how long a window is.
//
// # Way through the package
//
//	Exchange      four stamps → two Constraints
//	Pair          constraints of two nodes and what is assumed of them; Add, Check, Prune, Encode
//	Relation      what Pair.Relate derives for a wander and a direction; Translate, SameNode, Rate
//	Closure       relations of a fleet, over third nodes too; Translate, Duration, Audit
//	View, Ways    the same for many readings of one node, or of two: as true, and faster
//	PaperRelate   the method that all this is compared with
//
// # What is assumed
//
// A bound is true if
//
//   - within any window of the stated length some rate r exists such that the relative rate of the
//     two counters stays within r·(1 ± w);
//   - readings that two cores of a node give at one moment differ by at most its core slack;
//   - a counter that reads c has counted at least c and at most c + its quantum;
//   - each stamp's interval holds the true reading, and no epoch is broken. Where the kernel took
//     it, that rests on what StampsAssumed lists.
//
// Of a value that goes over third nodes this holds for them as well, but for one of them that may
// report whatever it likes, unless ThirdNodes says otherwise.
//
// Constraints can refute the first and never confirm it. Relation.Least is the wander below which
// they do; a relation whose declared wander is less than twice that is Suspect, and its bounds are
// estimates.
//
// # What is rounded
//
// Counter values are 64-bit integers. Differences of them are computed with in 64 bits and their
// products in 128, within limits at which nothing overflows (wide.go). Every decision of the linear
// programme is made on exact products, and each result is one exact quotient, rounded outward:
//
//   - a distance's share of the wander is rounded up to a whole cycle, which loosens the constraint
//     (evidence.go);
//   - the ends of p are rounded to whole cycles, those of r to 2⁻⁴⁸ (polygon.go);
//   - between knots a line is followed whose slope is rounded outward to 2⁻⁴⁰, and which is a chord
//     of a convex or concave bound, on its outer side (relation.go);
//   - w_min is rounded down (chord.go).
//
// What cannot be said is refused with ErrBeyondLimit or ErrOutOfRange: a reading or a rate so far
// from the constraints that the wander allows any, a reading from before the other counter began, a
// duration that 64 bits do not hold.
//
// Floating point appears in what is displayed and nowhere else.
package tscratio
