// Package oscillator says what this machine's clocks show of how steadily its counter runs: which wander they refute, and which they
// could not have seen. It is behind "cprof doctor --wander".
//
// A counter is held against another clock as against another node's (package tscratio): each reading of the clock between two of
// the counter proves that the one happened between the others. What that refutes is the wander of both together. A clock that is made
// from the counter itself shows nothing, whatever it is called, and neither does one that is steered to follow something else as
// far as its steering goes; each clock says what it is made of. Data can refute a wander and never confirm one.
//
// The package does not steer anything, needs no privilege, and compares with no other machine.
package oscillator
