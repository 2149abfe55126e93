// Package oscillator measures how steadily this machine's counter runs, as far as the machine's
// other clocks show that: which wander they refute, and which they could not have seen. It serves
// "cprof doctor --wander".
//
// A counter is compared with another clock as with another node (package tscratio): a reading of
// the clock between two readings of the counter proves that it happened between them. What that
// refutes is the wander of both together. A clock that is made from the counter itself shows
// nothing, whatever its name. Nor does a clock that is steered to follow something else, as far as
// its steering goes. Each clock says what it is made of. Data can refute a wander but never confirm
// one.
//
// The package steers nothing, needs no privilege, and compares with no other machine.
package oscillator
