// Package ntp asks this node's NTP daemon for its claim about the node's clock, and derives a
// bound.
//
//	claim, err := ntp.Ask(ctx, ntp.DefaultAddress)
//	bound_ns, ok := claim.Bound_ns()
//
// The daemon is chrony, and the package uses chronyc's command protocol. The bound is NTP's own
// promise, with which the paper compares: |offset| + dispersion + delay/2. It assumes that the
// daemon's sources are correct, which nothing here proves. It is therefore shown beside our bounds
// and never used for them.
//
// The package reads no counter, sets no clock and stores nothing. Package agent polls the daemon,
// and stores claims as blocks of kind ntp.
package ntp
