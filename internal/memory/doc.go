// Package memory is what a process has in memory of its own, and the most that was seen, for the bars and the soak; and whether there is memory left
// for more, for rings. It knows nothing of what a process has in there; that is for profiles.
package memory
