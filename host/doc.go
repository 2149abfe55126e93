// Package host finds out what one node is and how far its counter can be trusted.
//
// Every bound of the product names its assumptions; those that concern a single node are measured
// here:
//
//	quantum       the step in which the counter really moves                       MeasureQuantum
//	core slack    how far the cores of the node may disagree, as a proven interval  MeasureSlack
//	epoch         whether the counter has run unbroken                              NewWatch, Watch.Check
//	frequency     cycles a second, as an interval; for display only                 FrequencyBetween
//	facts         name, CPU, hypervisor, clocksource, cores, container              ReadFacts
//
// Examine does all of it and returns a Report: findings with a verdict and a remedy each.
//
// What is proven and what is not stands with each type. The mathematics are pure functions of
// readings; counters, clocks and the file system are passed in, so that machines which are not at
// hand can be tested.
//
// It does not relate two nodes (package tscratio), does not look at network stamps or chrony,
// changes no setting of the machine and needs no privilege. It is for Linux on amd64 and arm64. On
// arm64 it was tested under user-mode emulation only: the speed and the ordering of readings on
// real cores were not measured.
package host
