package main

import (
	"crypto/sha256"
	"fmt"
	"log"

	"github.com/cloudprofiler/cloudprofiler/channel"
	"github.com/cloudprofiler/cloudprofiler/handlers"
)

func main() {
	// An id for each tuple, which no other program makes. Bring your own if your tuples have one.
	ids, err := handlers.OpenIDs("", handlers.AnyInstance)
	if err != nil {
		log.Fatal(err)
	}
	defer ids.Close()

	// One goroutine logs to a channel of Open. Where several do, use OpenShared.
	parsed := open("parser#0/start", handlers.Options{})
	defer parsed.Close()
	hashed := open("hasher#0/end", handlers.Options{})
	defer hashed.Close()
	// Of the many tuples of a fast actor, the same two of 1024 on every channel that says so.
	sampled := open("hasher#0/sampled", handlers.Options{Handler: "xoy", Params: channel.Params{"x": 2, "y": 1024}})
	defer sampled.Close()

	var sum [sha256.Size]byte
	for range 10_000 {
		id, ok := ids.Next()
		if !ok {
			log.Fatal("no ids left")
		}
		parsed.Log(id)
		sum = sha256.Sum256(sum[:])
		hashed.Log(id)
		sampled.Log(id)
	}
	hashed.Log(channel.Poison) // the stream ends
	fmt.Printf("hashed 10000 tuples to %x…; see: cprof ring list\n", sum[:4])
}

// open returns a channel that works or is a no-op: profiling is no reason for a program to stop.
func open(name string, o handlers.Options) *handlers.Channel {
	c, err := handlers.Open(name, o)
	if err != nil {
		log.Print(err)
	}
	return c
}
