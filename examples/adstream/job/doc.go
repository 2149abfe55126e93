// Package job is the advertising benchmark on an embedded NATS JetStream cluster, instrumented with
// channels:
//
//	source → deserialise → filter → project → join → count → store
//
// The filter keeps views, the join finds an ad's campaign, and count counts by campaign and window.
//
// A placement lists the nodes, and says on which node each instance of each operator runs. Run runs
// the instances of one node, or all of them in one process. Instances send each other tuples over
// NATS subjects, also on one node. The join looks campaigns up in the cluster's key-value store,
// and the store writes the counts there.
//
// Copy from here how an operator is instrumented. actor.go logs the start and the end of the work
// on each tuple, and the poison when the stream ends. count.go links each tuple to the window that
// counted it, and goes on with the window's own id.
//
// This is an example and not a streaming engine: a node that dies ends the job, and nothing is
// repeated. Tuples travel over core NATS, as they travel over plain connections between Storm's
// workers. The number of unacknowledged tuples is limited, so a slow instance slows those before
// it, and nothing is dropped. A tuple that is missing at the end is an error.
package job
