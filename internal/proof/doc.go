// Package proof carries the figures that the product must reach from where they are measured to a
// dated record.
//
// A bar is measured in one of two places: in a test named TestBar…, which begins with [Begin] and
// ends with [Check], or in a cp-bench subcommand, which calls [Report] besides printing its table.
// Either way the same code with the same limit runs small in "make test" and at full size in "make
// prove". Only repetitions and durations differ, by [Size]. Command prove, below this package,
// lists the commands that measure bars.
//
// The small run judges only promises, such as "no event is lost". It measures and prints timings,
// but a timing that holds on one processor may miss on the next, or beside other work, so only the
// full run judges those ([Bar.Timing]). This package measures no figure itself, and repeats nothing
// until it fits.
package proof
