package main

import "flag"

func main() {
	k := &kafka{}
	flag.IntVar(&k.Instances, "instances", 2, "how many instances of the Streams application")
	flag.StringVar(&k.Kill, "kill", "",
		"kill and restart this halfway: broker, or instance for one of the application")
	k.Main("Kafka", 10_000, k)
}
