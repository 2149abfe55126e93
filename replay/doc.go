// Package replay finds the orders in which the events of a run could have happened.
//
//	run, err := replay.Open(dir, replay.Options{Reference: "node-a", Edges: edges})
//	summary, err := run.Each(ctx, func(e *replay.Event) error { … })
//
// Two things order events: causality, and time. Events of one node are in the order of its counter,
// a message is sent before it is received, and a tuple is made after the tuples of which it was
// made. If the interval of one event ends before the interval of another begins, the first event is
// before the second. The intervals come from the run's relations, so they are proven under the
// relations' assumptions. Events that are ordered by neither causality nor time could have happened
// in either order.
//
// # What is exact
//
// The order is exactly what causality and the intervals imply together. Causality and the intervals
// must be combined: an event that receives a message is not earlier than the event that sent the
// message, so each of these two events narrows the interval of the other. An order of events is
// found if and only if causality and the intervals allow it.
//
// # What it does not do
//
// The package does not decide which points of a program follow each other: the caller does (package
// analysis finds them). It draws nothing. Questions about orders are in package replay/question.
package replay
