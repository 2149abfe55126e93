package main

import (
	"crypto/sha256"
	"fmt"
	"log"

	"github.com/cloudprofiler/cloudprofiler/channel"
	"github.com/cloudprofiler/cloudprofiler/handlers"
)

func main() {
	// Each tuple gets an id that no other program makes. If your tuples have ids already, use
	// those.
	ids, err := handlers.OpenIDs("", handlers.AnyInstance)
	if err != nil {
		log.Fatal(err)
	}
	defer ids.Close()

	// Only one goroutine may log to a channel of Open. If several goroutines log, use OpenShared.
	parsed := open("parser#0/start", handlers.Options{})
	defer parsed.Close()
	hashed := open("hasher#0/end", handlers.Options{})
	defer hashed.Close()
	// This operator is fast, so it logs only a sample. Channels with the same parameters keep the
	// same tuples, so paths stay whole. Here 2 of 1024 tuples are kept.
	twoOf1024 := channel.Params{"x": 2, "y": 1024}
	sampled := open("hasher#0/sampled", handlers.Options{Handler: "xoy", Params: twoOf1024})
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

// open returns a channel even after an error: log calls to that channel do nothing. Profiling is no
// reason for a program to stop.
func open(name string, o handlers.Options) *handlers.Channel {
	c, err := handlers.Open(name, o)
	if err != nil {
		log.Print(err)
	}
	return c
}
