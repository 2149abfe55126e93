package main

import "flag"

func main() {
	f := &flink{}
	f.OfRecent = true // Flink keeps the last 128 markers of each subtask
	f.Path, f.Whole = path, [2]string{source, "job.count/start"}
	flag.StringVar(&f.Class, "class", "adstream.Job", "the job's main class")
	flag.IntVar(&f.TaskManagers, "taskmanagers", 2, "how many TaskManagers, each on its node")
	flag.BoolVar(&f.KillOne, "kill", false, "kill a TaskManager halfway, and start another one")
	f.Main("Flink", 15_000, f)
}
