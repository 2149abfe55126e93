// Package answers has the commands that answer questions about a run: analyze, diff, export, paths,
// replay, report and serve.
//
// All of them have flags of analyze that choose what to answer. If a part of the answer is suspect
// or missing, all of them except paths end with exit code 3. Packages analysis, blackbox/messages,
// blackbox/paths and replay compute the answers, and report and report/export write them. This
// package has the flags, the tables and the CSV. The demonstration also prints its answer with
// [PrintPaths].
package answers
