// Package answers has the commands that answer questions about a run: analyze, diff, report, export
// and serve.
//
// All five take the flags of analyze, which choose what to answer. All five end with exit code 3 if
// a part of the answer is suspect or missing. Packages analysis, report and report/export compute
// the answers. This package has the flags, the tables and the CSV. The demonstration also prints
// its answer with [PrintPaths].
package answers
