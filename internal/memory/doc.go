// Package memory is what a process has in memory of its own, for the bars and the soak: how much, and the most that was seen. It knows nothing
// of what a process has in there; that is for profiles.
package memory
