// Package answers is the commands that answer from a run: analyze, diff, report and export.
//
// All four take the flags of analyze, which choose what to answer. All four end with exit code 3 if
// a part of the answer is suspect or missing. What they compute belongs to packages analysis,
// report and report/export: here are flags, tables and CSV. The demonstration also prints its
// answer with [PrintPaths].
package answers
