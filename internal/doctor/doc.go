// Package doctor looks at what surrounds a node's counter: where rings live, which interfaces give the kernel's stamps, what
// steers CLOCK_REALTIME, whether the machine may fall asleep, and the limits that a process runs into. Each becomes a
// finding with a verdict and a remedy, as those of package host, which looks at the counter itself.
//
// What it looks at is passed in, so that machines which are not at hand can be tested. It changes nothing.
package doctor
