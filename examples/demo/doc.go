// Package demo runs the whole product on one machine, with nothing to configure: a coordinator,
// four virtual nodes with an agent each, and the job of examples/adstream across them. The
// coordinator, each agent and each node's part of the job are processes. Where it is allowed, each
// node has a network namespace of its own. Nodes measure each other before and after the job, and
// by trains during it. The run is collected and analysed like any other run. Then every duration is
// compared with the truth, which is known because the nodes are virtual.
//
// A node's counter is a known function of the one physical counter. This virtual counter takes the
// place of another machine's counter, and the stamps that package minrtt sees are virtual. Programs
// read the physical counter, so their logs are translated once they are collected. The product's
// code is not aware of this. The agents' own copies of the logs keep the physical readings. Package
// vnode implements virtual counters twice. The second implementation computes the truth from these
// readings.
//
// The results also show the bounds that other methods would have given: the method of the
// Cloudprofiler paper (exchanges over ZeroMQ before and after the job), the method of package
// returntrip, and NTP. chronyd runs in the namespaces without setting the clock. The nodes share
// one CLOCK_REALTIME, so NTP's claim is about that clock.
//
// The package is only for the demonstration.
package demo
