// Package analysis makes an answer of a run: logs and relations in; durations as intervals, their distributions and what the run cannot
// decide out.
//
//	dir, err := runs.Open("runs/tuesday")
//	answer, err := analysis.Run(ctx, dir, analysis.Options{})
//
// # How
//
// All events of all channels are scattered by id into partitions, which stay in memory as long as the budget lasts and then go to a
// scratch file (store.go). One partition after another is then gathered: the events of an id are a tuple's way (gather.go). Where ids follow
// each other, those of tuples that went the same way are rows of a table that follow each other, and measured together (page.go). The first
// partitions, a sample of ids over the whole run, say in which order tuples pass the points of the program (graph.go); a tuple's way
// is cut into stretches between points by that order, and each stretch becomes one duration in cycles of the reference node, by
// tscratio.Ways. Distributions keep what these were (distribution.go). Ids that were made of others are led back to their origins in
// rounds, each a join of the same kind (lineage.go).
//
// Return trips are joined on their own (returns.go): their channels are no points of the program. What they, the paper's method and NTP
// would have said is put beside our bound (compare.go).
//
// Nothing depends on the order in which files are read or on how many workers there are: the answer is the same.
//
// # What is assumed
//
// Equal ids are one tuple. Where an id comes again at the point at which it came first, another tuple begins with it; at any other
// point it is a duplicate, and the earliest counts. A tuple passes points in one order, unless the data show both orders, when the
// points are parallel. A graph that is declared replaces what is found in the data.
//
// # What it does not do
//
// It draws nothing and prints nothing (packages report and internal/cli/answers). It reads logs of
// this product alone. It does not model loops, in which a tuple passes a point many times under one
// id.
package analysis
