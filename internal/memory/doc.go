// Package memory measures the private memory of a process, for the bars and the soak: how much it
// has, and the most that it had. What the process keeps there is left to profiles.
package memory
