// Package runs is the run directory. It keeps everything of one experiment in one place that
// explains itself. FORMAT.md says where things are.
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
// A run that is being written is called NAME.part and can be read at any moment. When it is
// complete it is renamed. The parts that should be there but are not are named in run.yaml, and
// again by every reader. Nothing is left out silently.
//
// A directory may come from elsewhere, so it is not trusted. Names are checked, and no link is
// followed out of it. Damage is an error that names the part.
//
// The package measures nothing and decides nothing about a run. It can read a stored pair and a
// log, but it neither joins nor translates.
package runs
