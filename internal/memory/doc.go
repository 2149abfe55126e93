// Package memory measures the private memory of a process, for the bars and the soak: its current
// size and its peak. What the process stores there is left to profiles.
package memory
