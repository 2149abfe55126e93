package main

import "flag"

func main() {
	s := &storm{}
	flag.IntVar(&s.Workers, "workers", 2, "how many workers, each on its node")
	s.Main("Storm", 15_000, s)
}
