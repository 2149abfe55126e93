// Package machine contains the command doctor, which reports whether this machine is fit to measure
// time.
//
// The checks are in packages host and internal/doctor. The measurement of wander is in
// internal/oscillator. The command prints the findings and computes its exit code from the worst
// finding.
package machine
