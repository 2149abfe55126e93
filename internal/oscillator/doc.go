// Package oscillator measures how steadily this machine's counter runs, as far as the machine's
// other clocks show it: which wander these clocks refute, and which wander they could not have
// noticed. It serves "cprof doctor --wander".
//
// A counter is compared with another clock as with another node (package tscratio). If the clock
// was read between two readings of the counter, this proves that its reading happened between them.
// What such readings refute is the wander of counter and clock together. A clock that is made from
// the counter itself shows nothing, whatever its name. A clock that is steered to follow something
// else shows its steering too. Each clock states what it is made from. Data can refute a wander but
// never confirm one.
//
// The package steers nothing, needs no privilege, and compares with no other machine.
package oscillator
