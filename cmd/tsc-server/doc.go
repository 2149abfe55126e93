// Command tsc-server coordinates a fleet: it has the nodes measure each other's counters, opens and closes runs, and serves the
// handler table. What it does is in package coordinator; here are its configuration, its signals and its metrics.
package main
