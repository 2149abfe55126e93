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
// A run that is being written has the name NAME.part and can be read at any moment. When the run is
// complete, it is renamed. Missing parts are listed in run.yaml, and every reader reports them
// again. Nothing is left out silently.
//
// A run directory may be a copy from elsewhere, so it is not trusted. Names are checked, and no
// link that leads out of the directory is followed. Damage is an error that names the damaged part.
//
// The package does not measure anything or plan runs. It can read stored pairs and logs, but does
// not join logs or translate counters.
package runs
