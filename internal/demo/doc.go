// Package demo is the whole way of the product on one machine, with nothing to configure: two processes that are two
// virtual nodes with counters of their own, a small job whose tuples cross between them, exchanges before and after
// it, and the latencies of the tuples with their bound, held against the truth that only virtual nodes know.
//
// The nodes' counters are known functions of the one physical counter. They are put in where another machine's would
// be: before minrtt sees a stamp, and where records leave the log. The product's code knows nothing of them.
//
// The relation is the product's, within windows; what the paper's method says of the same nodes stands beside it. The
// join is made in memory. Nothing here is for use outside of the demonstration.
package demo
