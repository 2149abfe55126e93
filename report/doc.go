// Package report is the answer as a page: report.html, one file that opens in any browser and asks no network for anything.
//
//	answer, err := analysis.Run(ctx, run, analysis.Options{})
//	data := report.From(answer, run, "cprof 1.0")       // what the page shows, no more
//	err = report.Write(w, data)
//
// Data is the whole of what a page shows, documented in FORMAT.md and embedded in the page as JSON, so that a page can also be read
// by a program. It is aggregated before it is shipped: its size depends on how many stretches, nodes and moments are shown and not on
// how many tuples there were. The page itself is written in TypeScript in web/; its built form lies here as page.html, so that
// building this package needs no node.
//
// The package does not analyse: it neither joins nor translates, and decides no verdict. It writes no text tables, which package
// analysis's users print, and draws no picture outside of the page.
package report
