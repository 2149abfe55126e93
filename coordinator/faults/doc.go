// Package faults sums up what is wrong with a fleet: in one line for all faults of a kind, and the
// worst kind first.
package faults
