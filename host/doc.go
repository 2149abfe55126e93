// Package host measures the properties of one node and how far its counter can be trusted.
//
// Every bound of the product names its assumptions. Those about a single node are measured here:
//
//	quantum     the step in which the counter really moves                        MeasureQuantum
//	core slack  how far the cores of the node may disagree, as a proven interval  MeasureSlack
//	epoch       whether the counter has run unbroken                              NewWatch
//	frequency   cycles a second, as an interval; for display only                 FrequencyBetween
//	facts       name, CPU, hypervisor, clocksource, cores, container              ReadFacts
//
// Examine does all of this and returns a Report: a list of findings, each with a verdict and a
// remedy.
//
// Each type states what is proven about it and what is not. The mathematics are pure functions of
// readings. Counters, clocks and the file system are passed in, so that tests can simulate other
// machines.
//
// The package does not relate two nodes (package tscratio) and does not examine network stamps or
// chrony. It changes no setting of the machine and needs no privilege. It is for Linux on amd64 and
// arm64. On arm64 it was tested only under user-mode emulation: the speed and the ordering of
// readings on real cores were not measured.
package host
