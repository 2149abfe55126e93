// Package page writes a page on which a reader replays a run. It shows time lines of the nodes, the
// events that may come next, and the orders that the reader chooses.
//
//	err := page.Write(w, page.Of(history, summary, page.Options{…}))
//
// The page is one file that loads nothing from the network. Its source is in web (replay.ts), and
// the command "make web" builds page.html from it.
//
// The package computes no order: package replay does.
package page
