// Package doctor examines what surrounds a node's counter: where rings are, which interfaces give
// kernel stamps, what steers CLOCK_REALTIME, whether the machine may be suspended, and the limits
// of processes. Each becomes a finding with a verdict and a remedy, like the findings of package
// host, which examines the counter itself.
//
// What doctor examines is passed in, so that tests can imitate other machines. It changes nothing.
package doctor
