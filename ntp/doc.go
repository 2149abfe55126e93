// Package ntp asks this node's NTP daemon for its claim about the node's clock, and computes a
// bound from the claim.
//
//	claim, err := ntp.Ask(ctx, ntp.DefaultAddress)
//	bound_ns, ok := claim.Bound_ns()
//
// The daemon is chrony, and the package uses chronyc's command protocol. The bound is |offset| +
// dispersion + delay/2, which NTP itself promises. The Cloudprofiler paper compares its own bound
// with this one. The bound assumes that the daemon's sources are correct, which nothing here
// proves. Therefore Cloudprofiler shows this bound next to its own bounds but never computes with
// it.
//
// The package reads no counter, sets no clock and stores nothing. Package agent asks the daemon at
// intervals, and stores the claims in logs, as blocks of kind ntp.
package ntp
