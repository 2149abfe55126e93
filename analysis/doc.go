// Package analysis computes what a run shows. It reads logs and relations. It returns durations as
// intervals, their distributions, and what the run cannot decide.
//
//	dir, err := runs.Open("runs/tuesday")
//	answer, err := analysis.Run(ctx, dir, analysis.Options{})
//
// All events of all channels are scattered by id into partitions. Partitions stay in memory as long
// as the budget allows, and then are written to a scratch file (store.go). The partitions are then
// gathered one after another: the events of one id are a tuple's path (gather.go, tuple.go). Where
// ids are consecutive, tuples that took the same path are adjacent rows of a table and are measured
// together (page.go, whole.go, measure.go).
//
// The first partitions are a sample of ids over the whole run. They show the order in which tuples
// pass the points of the program (graph.go). That order cuts a tuple's path into spans between
// points. Each span becomes one duration in cycles of the reference node, computed by
// tscratio.Ways. Distributions summarise the durations (distribution.go).
//
// Some tuples are made of others. Their ids are traced back to the original ids in rounds. Each
// round joins ids by partition, as described above (lineage.go).
//
// Return trips are joined separately (returns.go), because their channels are not points of the
// program. The bounds that return trips, the paper's method and NTP would have given are put beside
// ours (compare.go).
//
// The answer depends neither on the order in which files are read nor on the number of workers.
//
// # Files
//
// The package is one pass from logs to an answer. Its stages share types that no other package
// should see: input, sources, passages, spans, distributions. So the package is one folder of many
// small files. They cover what is asked and read (options, input, scatter, store), how tuples are
// joined (graph, gather, page, tuple, whole, measure, lineage), what is counted (span,
// distribution, found, completeness), and how the answer is put together (assemble, path, returns,
// compare, diff). In this package, a source is the log of one ring.
//
// # What is assumed
//
// Events with equal ids belong to one tuple. If an id occurs again at the point where it first
// occurred, another tuple begins there. At any other point the repeated event is a duplicate, and
// the earliest event is used. All tuples pass two points in the same order; if the data show both
// orders, the points are parallel. A declared graph replaces the graph found in the data.
//
// # What it does not do
//
// The package draws nothing and prints nothing: packages report and internal/cli/answers do. It
// reads only this product's logs. It does not model loops, in which a tuple passes a point many
// times under one id.
package analysis
