// Package proof carries the figures that the product must reach from where they are measured to a
// dated record.
//
// A bar is such a figure with its limit. It is measured in one of two places: in a test named
// TestBar…, which begins with [Begin] and ends with [Check], or in a cp-bench subcommand, which
// calls [Report] besides printing its table. In both places the same code with the same limit runs
// small in "make test" and at full size in "make prove". Only repetitions and durations differ, by
// [Size]. Command prove, below this package, lists the commands that measure bars.
//
// The small run judges only promises, such as "no event is lost". It measures and prints timings
// too. But a timing that is good enough on one processor may not be on the next, or beside other
// work. So only the full run judges timings ([Bar.Timing]). This package measures no figure itself.
// It never repeats a measurement until the result fits.
package proof
