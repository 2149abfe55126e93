// Package runs is the run directory: everything that is kept of one experiment, in one place that explains itself. FORMAT.md says
// what lies where.
//
//	d, err := runs.Create(root, runs.Run{Name: "tuesday", …})   // root/tuesday.part
//	dir, err := d.LogDirectory("node-a")                        // for a drainer, or d.AddLog for a log that comes over a network
//	err = d.PutRelation(pair)
//	missing, err := d.Complete()                                // root/tuesday
//
//	r, err := runs.Open("root/tuesday")
//	pairs, missing := r.Relations()
//	logs, missing := r.Logs()
//
// A run that is being written is called NAME.part and can be read at any moment. When it is complete it is renamed. What should be
// there and is not is named in run.yaml, and again by whoever reads it: nothing is left out without a word.
//
// A directory may come from elsewhere, so it is not trusted: names are checked, no link is followed out of it, and what is damaged is
// an error that says which part.
//
// The package measures nothing and decides nothing about a run; it knows what a stored pair and a log are, but neither joins nor
// translates.
package runs
