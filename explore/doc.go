// Package explore serves a run to a browser, from the whole run down to single events. A run may be
// large. So Prepare makes an index once, and each answer reads small parts of the index.
//
//	index, err := explore.Prepare(ctx, run, analysis.Options{}, nil, remark)
//	err = explore.Serve(ctx, listener, explore.Handler([]*explore.Index{index}))
//
// The index is a file in the run's directory of exports; FORMAT.md describes it. It contains the
// rows that package analysis computes: every stay of a tuple in an instance of an operator (from
// its first event there to its last) and every duration, sorted by time; and every tuple with its
// events and durations, sorted by id (collect.go, sort.go, write.go). Above the rows that are
// sorted by time is a tree. Each node of the tree counts the durations of the rows below it. An
// answer about a long time reads nodes instead of rows. So an answer about an hour reads about as
// much as an answer about a second (query.go).
//
// The server answers the page's requests in JSON, and limits the size of each answer (server.go,
// answers.go). The page is page.html. The command "make web" builds it from web/.
//
// The package does not analyse: package analysis computes each row. This package only counts rows,
// and rounds the percentiles of the counts outward. In addition to the run, it needs only the index
// file.
package explore
