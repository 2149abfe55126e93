// Package runs is the run directory, which contains everything that is stored about one experiment.
// FORMAT.md describes its files.
//
//	d, err := runs.Create(root, runs.Run{Name: "tuesday", …})   // root/tuesday.part
//	dir, err := d.LogDirectory("node-a")                        // for a drainer; d.AddLog copies
//	err = d.PutRelation(pair)
//	missing, err := d.Complete()                                // root/tuesday
//
//	r, err := runs.Open("root/tuesday")
//	pairs, missing := r.Relations()
//	logs, missing := r.Logs()
//
// The directory of a run that is being written is called NAME.part. This directory can be read at
// any moment. When the run is complete, the package renames the directory. run.yaml lists missing
// parts, and every reader reports them again. Nothing is left out silently.
//
// A run directory may be a copy from elsewhere, so the package does not trust it. The package
// checks names, and follows no link that leads out of the directory. If a part is damaged, the
// error names the part.
//
// The package does not measure anything or plan runs. It reads stored relations and lists the
// segments of logs, but does not read rows or translate counters.
package runs
