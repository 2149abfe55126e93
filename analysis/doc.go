// Package analysis computes what a run shows. It reads logs and relations. It returns durations as
// intervals, their distributions, and what the run cannot decide.
//
//	dir, err := runs.Open("runs/tuesday")
//	answer, err := analysis.Run(ctx, dir, analysis.Options{})
//
// All events of all channels are distributed over partitions by their ids. Events that do not fit
// into the memory budget go to a scratch file (store.go). The partitions are then gathered one
// after another: the events of one id are a tuple's path (gather.go, tuple.go). If an id passes a
// point more than once, its events are shared out among several tuples (repeated.go). Where ids are
// consecutive, tuples that took the same path are adjacent rows of a table and are measured
// together (page.go, whole.go, measure.go).
//
// A hash decides an id's partition, so the first partitions are a sample of the whole run. They
// show the order in which tuples pass the points of the program (evidence.go, graph.go). The place
// of a point in this order is its rank. A mask is a set of ranks, with a bit for each. The order
// cuts a tuple's path into spans between points (plan.go). Each span becomes one duration in cycles
// of the reference node, computed by tscratio.Ways. Where branches of a tuple meet, the critical
// path follows the last one (critical.go). A duration that may rest on another tuple's event is
// withheld (late.go). Distributions summarise the durations (distribution.go).
//
// Some operators send each tuple on under another id, and log a link. Before the sample is taken,
// the tuple's events get the id that it began with, so they are one path (renamed.go).
//
// Some tuples are made of other tuples, as the result of a window is. Logged links name these other
// tuples. Links are followed in rounds. The first round begins at the tuples that were made of no
// other tuples, and each round leads to the tuples that were made of the previous ones. Each round
// joins ids by partition, as described above (lineage.go).
//
// A return trip consists of a tuple's transfer to another node and of the acknowledgement's
// transfer back (package returntrip). Return trips are joined separately (returns.go), because
// their channels are not points of the program. The bounds that return trips, the paper's method
// and NTP would have given are put beside our bounds (compare.go).
//
// The answer depends neither on the order in which files are read nor on the number of workers.
//
// # Files
//
// The package is one pass from logs to an answer. Its stages share types that no other package
// should see: input, sources, passages, spans, distributions. So the package is one folder of many
// small files. The files handle what is asked and read (options, input, scatter, store), how tuples
// are joined (renamed, evidence, nested, ordering, graph, plan, gather, page, tuple, late, whole,
// measure, critical, lineage), what is counted (span, distribution, chance, found, steady,
// completeness, empty, broken), and how the answer is put together (assemble, path, shares,
// tuple_path, returns, compare, diff). In this package, a source is the log of one ring, and an
// actor is an operator.
//
// # What is assumed
//
// Events with equal ids belong to one tuple. If an id occurs again at the point where it first
// occurred, another tuple begins there. At any other point the repeated event is a duplicate, and
// the earliest event is used. Where branches of a tuple meet, the last event is used. If an event
// is repeated, that happens before its id begins again, and its first copy is in the logs. If ids
// begin again and logs lack events, the event of one tuple may be mistaken for an event of another
// tuple, and a finding says so. If the events of an id show that a duration may be wrong, it is
// withheld. All tuples pass two points in the same order; if the data show both orders, the points
// are parallel. Edges that the user declares (Options.Edges) are added to the graph that is found
// in the data. If an actor works on tuples only while another actor does, that other actor may have
// called it, or both may be branches. If the data do not show which, nothing that depends on it is
// called sure (nested.go, ordering.go).
//
// # What it does not do
//
// The package draws nothing and prints nothing: packages report and internal/cli/answers do. It
// reads only this product's logs. It does not model loops, in which a tuple passes a point many
// times under one id.
package analysis
