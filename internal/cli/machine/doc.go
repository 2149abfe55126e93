// Package machine is the command doctor: it says what on this machine is fit to measure time.
//
// Findings belong to packages host and internal/doctor, and wander to internal/oscillator. The
// command prints them and turns the worst into an exit code.
package machine
