// Package ntp asks the NTP daemon of this node what it claims about the node's clock, and says what
// bound follows.
//
//	claim, err := ntp.Ask(ctx, ntp.DefaultAddress)
//	bound_ns, ok := claim.Bound_ns()
//
// The daemon is chrony, asked over its own command protocol as chronyc asks. The bound is what NTP
// itself promises (and what the paper compares with): |offset| + dispersion + delay/2. It rests on
// the daemon's sources being right, which nothing here proves: it is shown beside our bounds and
// never used for them.
//
// The package reads no counter, sets no clock and keeps nothing. Package agent polls, and keeps
// claims as blocks of kind ntp.
package ntp
