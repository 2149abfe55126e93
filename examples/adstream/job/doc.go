// Package job is the advertising benchmark's topology on an embedded NATS JetStream cluster, instrumented with channels:
//
//	source → deserialise → filter by event type → project → join ad to campaign → count by campaign and window → store
//
// A placement says which nodes there are and on which of them each instance of each actor runs. Run runs what belongs to one node, or all
// of it in one process. Actors send tuples to each other over NATS subjects, also on one node; the join looks campaigns up in the cluster's
// key-value store, and the store writes the counts there.
//
// What to copy from here is how an actor is instrumented: actor.go logs start and end around the work on each tuple and the poison at the
// end; count.go links each tuple to the window that counted it, and carries on with the window's own id.
//
// It is an example and not a streaming engine: a node that dies ends the job, and nothing is repeated. Tuples are on core NATS
// subjects, as between Storm's workers, with windows of unacknowledged tuples so that a slow actor slows its senders and nothing is dropped; a
// tuple that is missing at the end is an error.
package job
