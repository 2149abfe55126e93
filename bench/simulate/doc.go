// Package simulate measures package sim by the experiments of DIPS (Fernandes, 2011), with
// corrections: the observer runs equally often for any number of workers, the drift of the mean
// stands beside the variance, and the number of nodes is a multiple of the workers' shards, so that
// the expected share of local messages is exact.
//
// E3 compares the delays of local and remote messages, which bundles lengthen in DIPS. Here the
// delay of a message is simulated and does not depend on who works on its receiver, so there is
// nothing to compare: package sim's tests require equal results.
package simulate
