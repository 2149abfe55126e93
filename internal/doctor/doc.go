// Package doctor examines the surroundings of a node's counter: where rings are, which interfaces
// give kernel stamps, what adjusts CLOCK_REALTIME, whether the machine may be suspended, and the
// limits of processes. The result is a list of findings, each with a verdict and a remedy. Package
// host, which examines the counter itself, returns the same kind of findings.
//
// The machine to examine is an argument, so that tests can simulate other machines. The package
// changes nothing on a machine.
package doctor
