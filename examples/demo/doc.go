// Package demo is the whole product on one machine, with nothing to configure: a coordinator, four virtual nodes with an agent each, and the
// job of examples/adstream across them, in processes and network namespaces of their own. A run with anchors before and after and trains
// during the job is collected and analysed as any other, and every duration is held against the truth that only virtual nodes know.
//
// The nodes' counters are known functions of the one physical counter. They are put in where another machine's would be: before minrtt
// sees a stamp, and in the logs once they are collected, for programs read the counter that the machine has. The product's code knows
// nothing of them. The agents' own copies of the logs keep the physical readings: the truth is computed from these, by package vnode's second
// implementation.
//
// What the paper's method says of the same nodes stands beside it, from exchanges over ZeroMQ around the job, and what return trips and NTP would
// have claimed. chronyd runs in the namespaces without setting the clock: nodes share one REALTIME, so its claim is about that one. Nothing here is for use outside
// of the demonstration.
package demo
