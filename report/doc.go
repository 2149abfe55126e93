// Package report shows an answer as a page: report.html, one file that opens in any browser and
// fetches nothing.
//
//	answer, err := analysis.Run(ctx, run, analysis.Options{})
//	data := report.From(answer, run, "cprof 1.0") // all that the page shows
//	err = report.Write(w, data)
//
// Data is all that a page shows. FORMAT.md describes it. The page has it as JSON, so that a program
// can read a page too. It is aggregated: its size depends on how many spans, nodes and moments
// are shown, and not on how many tuples there were. The page's source is TypeScript in web/. Its
// built form is page.html here, so that building this package needs no node.
//
// The package does not analyse: it neither joins nor translates, and decides no verdict. Commands
// print the tables, and nothing is drawn outside of the page.
package report
