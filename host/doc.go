// Package host measures the properties of one node and how far its counter can be trusted.
//
// Every bound of the product names its assumptions. This package measures the assumptions about a
// single node:
//
//	quantum     the step in which the counter really moves                        MeasureQuantum
//	core slack  how far the cores of the node may disagree, as a proven interval  MeasureSlack
//	epoch       whether the counter has run unbroken                              NewWatch
//	frequency   cycles a second, as an interval; for display only                 FrequencyBetween
//	facts       name, CPU, hypervisor, clocksource, cores, container              ReadFacts
//
// Examine measures all of this and returns a Report: a list of findings, each with a verdict and,
// if something can be done, a remedy.
//
// Each type states what is proven about its values and what is not. The mathematics are pure
// functions of readings. Counters, clocks and the file system are arguments, so that tests can
// simulate other machines.
//
// The package does not relate two nodes (package tscratio does) and does not examine network stamps
// or chrony. It changes no setting of the machine and needs no privilege. It is for Linux on amd64
// and arm64. The tests on arm64 ran only under user-mode emulation. Nobody has measured the speed
// and the order of readings on real arm64 cores.
package host
