// Package bench measures what the product costs on this machine. "cp-bench" prints the figures.
//
// A cost is a ratio to a base. The measurements of both take turns every few milliseconds, so that
// a drift of the machine's speed affects both. A repetition is many such turns and gives their
// median. If other processes took more than a tenth of a core, the repetition is not used.
//
// The package prints nothing and judges nothing: tables and limits are in package bench/commands,
// which reports bars to package proof.
package bench
