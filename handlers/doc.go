// Package handlers is the package that programs call: open a channel, log events, close the
// channel.
//
//	ch, err := handlers.Open("parser#0/start", handlers.Options{})
//	if err != nil {
//		log.Print(err) // ch is a no-op now: the program goes on without it
//	}
//	defer ch.Close()
//	…
//	ch.Log(tuple.ID)
//
// A channel has one handler at a time, which determines what the channel does with an event. Each
// handler has its own file in this package. The drainer can change the handler while the program
// runs, and the next log call adopts the new handler.
//
// A log call costs little more than one counter read. It allocates nothing, takes no lock, makes no
// system call and causes no page fault. On amd64 the log call is assembly (log_amd64.s). The same
// call in Go (log.go) handles rare cases on amd64, and all cases in builds for arm64 and for the
// race detector. A test compares both implementations.
//
// The package needs no agent. Logged events stay in shared memory until a drainer takes them. The
// channel's policy determines what happens when the ring is full. The package writes only rings and
// the files of OpenIDs. It starts no goroutines and opens no sockets.
package handlers
