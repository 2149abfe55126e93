// Command tsc-server coordinates a fleet: it makes the nodes measure each other's counters, opens
// and closes runs, and serves the handler table. Package coordinator does the work. This command
// contains the configuration, the signals and the metrics.
package main
