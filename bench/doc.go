// Package bench measures what the product costs on this machine: the figures behind "cp-bench".
//
// A cost is a ratio to a base that is measured beside it: the machine's speed drifts, and both drift together. What is
// measured and its base take turns every few milliseconds; a repetition is many such turns and gives their median; a
// repetition in which other processes took more than a tenth of a core is marked and does not count.
//
// It prints nothing and judges nothing: tables are in package cli, limits in the bars that cli reports to package proof.
package bench
