// Package report shows an answer as a page: report.html, one file that opens in any browser and
// fetches nothing.
//
//	answer, err := analysis.Run(ctx, run, analysis.Options{})
//	data := report.From(answer, run, "cprof 1.0") // all that the page shows
//	err = report.Write(w, data)
//
// Data is all that a page shows. FORMAT.md describes it. The page contains it as JSON, so that a
// program can read a page too. Data is aggregated: its size depends on how many spans, nodes and
// moments are shown, and not on how many tuples there were. The page's source is TypeScript in
// web/. The built page is checked in here as page.html, so that building this package does not
// require node.
//
// The package does not analyse: it does not join events, translate readings or decide verdicts. The
// commands print the tables. All drawings are on the page.
package report
