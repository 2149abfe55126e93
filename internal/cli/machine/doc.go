// Package machine is the command doctor: it reports what on this machine is fit to measure time.
//
// The checks belong to packages host and internal/doctor, and wander belongs to
// internal/oscillator. The command prints the findings and turns the worst into an exit code.
package machine
