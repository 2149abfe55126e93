// Package question asks whether a run has an order in which a condition holds.
//
//	q, err := question.Parse("balance < deposited", []string{
//		`balance = 0 then event.point == "write" ? seen[event.node] + event.value : balance`,
//		`seen by node = 0 then event.point == "read" ? balance : seen[event.node]`,
//		`deposited = 0 then event.point == "write" ? deposited + event.value : deposited`,
//	})
//	found, err := q.Search(ctx, events, orders)
//
// A condition is an expression in CEL, the Common Expression Language, over states and the last
// event. A state is a value that each event may change. It has an initial value, and an expression
// that computes the next value. Parse checks the types of expressions. Expressions see what an
// event's record and its log contain: node, channel, handler and id. In the order that really
// happened, the states have the values that they had in the run; in another order, they have the
// values that the events would have given them.
//
// # The search
//
// Search finds an order of as few events as possible. Some events change no state and cannot make
// the condition true. Search does not permute them. Such an event is taken only if it must come
// before an event that is permuted (partial-order reduction). If the beginnings of two orders have
// the same events and lead to the same states, the search goes on with only one of them.
//
// The package does not work out which event is before which: package replay does.
package question
