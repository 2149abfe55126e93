// Package capture sees the messages that programs exchange over sockets, and logs them. The
// programs need no change, and do not notice.
//
//	c, err := capture.Start(capture.Options{})
//	…
//	err = c.Close()
//
// Small programs run in the kernel (eBPF), where each system call that sends or receives passes
// (programs.go). They read the numbers of the socket, its place in the stream, the thread and the
// clock, and never a byte of a message. What they hand over becomes records of one channel (package
// blackbox), which are drained and logged like those of any program.
//
// # Time
//
// The kernel's programs cannot read the counter. They read CLOCK_MONOTONIC, which the kernel
// computes from the counter. The package reads both, at least 50 times a second, and converts each
// stamp into an interval of counter readings (clock.go).
//
// # What is not seen
//
// Bytes that a program moves between a socket and a file within the kernel (splice from a socket),
// urgent data, and messages of kernels before Linux 6.3. Of datagrams and of UNIX sockets only size
// and time are seen, and not when the call began.
//
// # Rights
//
// The kernel must describe itself (BTF), and the process needs CAP_BPF and CAP_PERFMON. Otherwise
// Start returns an error that says what to do. When the process ends, in whatever way, the kernel
// removes the programs.
//
// The package is only for the agent: programs that log do not import it.
package capture
