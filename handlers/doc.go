// Package handlers is what programs call: open a channel, log events, close it.
//
//	ch, err := handlers.Open("parser#0/start", handlers.Options{})
//	if err != nil {
//		log.Print(err) // ch is a no-op now: the program goes on without it
//	}
//	defer ch.Close()
//	…
//	ch.Log(tuple.ID)
//
// A channel has one handler at a time, which decides what becomes of an event. Each handler has a
// file here. The drainer can change the handler while the program runs, and the next log call
// adopts the new one.
//
// A log call costs little more than one counter read. It allocates nothing, takes no lock, calls no
// kernel and faults no page. On amd64 it is assembly (log_amd64.s). The same call in Go (log.go)
// serves rare cases on amd64, and all cases in builds for arm64 and for the race detector. A test
// holds the two against each other.
//
// The package needs no agent. What was logged stays in shared memory until something drains it, and
// the channel's policy says what happens when the ring is full. The package writes no files but
// rings, starts no goroutines and opens no sockets.
package handlers
