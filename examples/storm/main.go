package main

import "flag"

func main() {
	s := &storm{}
	s.Path, s.Whole = path, [2]string{read, done}
	flag.IntVar(&s.Workers, "workers", 2, "how many workers, each on its node")
	s.Main("Storm", 5_000, s)
}
