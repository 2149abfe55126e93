// Package proof carries the figures that the product must reach from where they are measured to a dated record.
//
// A bar is measured in one of two places: in a test named TestBar…, which begins with [Begin] and ends with [Check], or
// in a cprof bench subcommand, which calls [Report] beside printing its table. Either way the same code with the same
// limit, but for what is said below, runs small in "make test" and at full size in "make prove"; only repetitions and durations differ, by [Size].
// The commands that do so are listed in command prove, below this package.
//
// This package measures none of these figures itself and repeats nothing until it fits: a bar that is missed at full size is recorded as missed. The
// small run, which judges changes on machines that others use as well, holds absolute times and speeds to the machine's pace
// ([MeasurePace]), measures a cost or a speed that was missed once more, and shows both.
package proof
