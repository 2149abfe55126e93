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
// A channel has one handler at a time, which decides what becomes of an event: one file here for each. The
// drainer can change the handler while the program runs; the next log call adopts it.
//
// A log call costs one counter read and little more: it allocates nothing, takes no lock, calls no kernel and faults no
// page. On amd64 it is assembly (log_amd64.s). The same in Go (log.go) serves what is rare on amd64, and everything in
// builds for arm64 and for the race detector; a test runs both against each other.
//
// The package needs no agent: what was logged stays in shared memory until something drains it, and the channel's policy
// says what happens when there is no room left. It writes no files but rings, starts no goroutines and opens no sockets.
package handlers
