package main

import "flag"

func main() {
	s := &storm{}
	s.Path, s.Whole = eventPath, [2]string{readPoint, donePoint}
	flag.IntVar(&s.Workers, "workers", 2, "how many workers, each on its node")
	flag.BoolVar(&s.KillOne, "kill", false,
		"kill a worker halfway; its supervisor starts another one")
	s.Main("Storm", 5_000, s)
}
