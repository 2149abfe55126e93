// Package bench measures what the product costs on this machine. Its figures are printed by
// "cp-bench".
//
// A cost is a ratio to a base that is measured beside it. The machine's speed drifts, but then both
// drift together. The two take turns every few milliseconds. A repetition is many such turns and
// gives their median. A repetition is not used if other processes took more than a tenth of a core.
//
// The package prints nothing and judges nothing: tables and limits are in package bench/commands,
// which reports bars to package proof.
package bench
