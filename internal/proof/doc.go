// Package proof defines the figures that the product must reach, and collects their measured values
// in a dated record.
//
// Such a figure with its limit is a bar. Two kinds of code measure bars: a test named TestBar…,
// which begins with [Begin] and ends with [Check], and a subcommand of cp-bench, which prints its
// table and calls [Report]. The same code, with the same limit, runs in "make test" at a small
// size, and in "make prove" at full size. Only the number of repetitions and the durations depend
// on the [Size]. The command prove, below this package, lists the commands that measure bars.
//
// The small run measures and prints timings, but does not judge them ([Bar.Timing]). A timing that
// is good enough on one processor may not be good enough on another, or while other programs run.
// Only the full run judges timings. Both runs judge all other bars, such as "no event is lost".
// This package measures no figure itself. It never repeats a measurement to get a result that fits.
package proof
