// Package simulate measures package sim with the experiments of DIPS (Fernandes, 2011). It corrects
// three things. The observer runs equally often for any number of workers. The drift of the mean is
// printed next to the variance. In E2, all workers have equally many nodes, so that the expected
// share of local messages is exact.
//
// E3 compares the delays of local and remote messages, which bundles lengthen in DIPS. Here the
// delay of a message is simulated and does not depend on the receiver's worker. So there is nothing
// to compare: package sim's tests require equal results.
package simulate
