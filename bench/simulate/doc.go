// Package simulate measures package sim with the experiments of DIPS (Fernandes, 2011). It differs
// from DIPS in three ways. The observer runs equally often for any number of workers. The drift of
// the mean is printed next to the variance. In E2, all workers have equally many nodes, so that the
// expected share of local messages is exact.
//
// In DIPS, E3 compares the delays of local and remote messages, because bundles lengthen the delay
// of remote ones. Here the delay of a message is simulated, and does not depend on the receiver's
// worker. So here E3 only checks that the two delays hardly differ. Tests of package sim/library
// check that the results are the same for any number of workers.
package simulate
