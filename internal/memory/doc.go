// Package memory measures the private memory of a process, its present size and its peak, for the
// bars and the soak. It does not show what the process uses the memory for: use a profile for that.
package memory
