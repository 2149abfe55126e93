// Package bench measures what the product costs on this machine. "cp-bench" prints the figures.
//
// A cost is divided by the cost of something simple (the base), such as a bare reading of the
// counter. The measurements of both alternate every few milliseconds, so that a drift of the
// machine's speed affects both. A repetition consists of many such turns, and its figure is their
// median. If other processes took more than a tenth of a core, the repetition is not used.
//
// The package prints nothing and judges nothing: tables and limits are in package bench/commands,
// which reports bars to package proof.
package bench
