// Package faults sums up what is wrong with a fleet. It makes one line of all faults of a kind, and
// puts the worst kind first. Package coordinator finds the faults, and says each of them in a
// sentence.
package faults
