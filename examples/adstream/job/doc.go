// Package job is the advertising benchmark on an embedded NATS JetStream cluster, instrumented with
// channels:
//
//	source → deserialise → filter → project → join → count → store
//
// The filter keeps only views, the join finds an ad's campaign, and count counts by campaign and
// window.
//
// A placement lists the nodes, and assigns each instance of each operator to a node. Run runs the
// instances of one node, or all instances in one process. Instances send each other tuples over
// NATS subjects, even on one node. The join looks campaigns up in the cluster's key-value store,
// and the store writes the counts there.
//
// This package shows how to instrument an operator: copy from it. actor.go logs the start and the
// end of the work on each tuple, and the poison when the stream ends. count.go links each tuple to
// the window that counted the tuple, and continues with the window's own id.
//
// This is an example and not a streaming engine: a node that dies ends the job, and nothing is
// repeated. Tuples travel over core NATS, as Storm's tuples travel over plain connections between
// workers. The number of unacknowledged tuples is limited. So a slow instance slows the instances
// before it, and nothing is dropped. A tuple that is missing at the end is an error.
package job
