// Command tsc-server coordinates a fleet: it has the nodes measure each other's counters, opens and
// closes runs, and serves the handler table. The work is in package coordinator. Here are the
// configuration, the signals and the metrics.
package main
