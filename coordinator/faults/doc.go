// Package faults sums up what is wrong with a fleet: in one line for all faults of a kind, and the
// worst kind first. Package coordinator finds the faults, and says each of them in a sentence.
package faults
