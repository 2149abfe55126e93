// Package oscillator measures how steadily this machine's counter runs, by comparing it with the
// machine's other clocks. It finds out which wander these clocks refute, and which wander they
// could not have noticed. It serves "cprof doctor --wander".
//
// The comparison treats a clock like another node (package tscratio). If a program reads the
// counter, then the clock, then the counter again, this proves that the clock was read between the
// two readings of the counter. Such readings can refute an assumed wander between the counter and
// the clock. A clock that is made from the counter itself shows nothing about the counter, whatever
// the clock's name is. A clock that is steered to follow another clock also shows its steering. So
// each clock states what it is made from. Data can refute a wander but never confirm one.
//
// The package steers nothing, needs no privilege, and compares with no other machine.
package oscillator
