// Package doctor examines what surrounds a node's counter: where rings live, which interfaces give
// kernel stamps, what steers CLOCK_REALTIME, whether the machine may fall asleep, and the limits
// that a process runs into. Each becomes a finding with a verdict and a remedy, like those of
// package host, which examines the counter itself.
//
// What it examines is passed in, so that tests can stand in for other machines. It changes nothing.
package doctor
