// Package capture sees the messages that programs exchange over sockets, and logs them. The
// programs need no change, and do not notice.
//
//	c, err := capture.Start(capture.Options{})
//	…
//	err = c.Close()
//
// Small eBPF programs run in the kernel, at places that each sending and each receiving system call
// passes (programs.go). The eBPF programs read the socket's addresses, the position in the stream,
// the thread and the clock. Of a datagram they also read the bytes, and report a checksum
// (others.go). They never report a byte of a message. They report messages in rings that this
// process maps, one for each processor (layout.go). The reports become records of one channel
// (package blackbox). They are drained and logged like the records of any program.
//
// # Time
//
// The eBPF programs cannot read the counter. They read CLOCK_MONOTONIC, which the kernel computes
// from the counter. The package reads both, at least 50 times a second, and converts each stamp
// into an interval of counter readings (clock.go).
//
// # What is not seen
//
// The package does not see bytes that a program moves from a socket to a file within the kernel
// (splice), data that io_uring receives without a copy, or urgent data. It sees all other messages
// that io_uring sends and receives, even if threads of the kernel do the work. On kernels before
// Linux 6.3, it sees no messages at all, whatever sends them. Of datagrams and of messages over
// UNIX sockets, it sees the size, and when the call ended, but not when the call began.
//
// # Tracepoints only
//
// The eBPF programs use tracepoints. eBPF programs at the entry of functions (fentry) may be
// cheaper, and on older kernels they would show when a call begins. But no machine on which the
// package was tested accepts such programs, or has kprobes. An untested eBPF program is a risk for
// users, so the package has no such program.
//
// # Rights
//
// The kernel must contain a description of its own structures (BTF), and the process needs CAP_BPF
// and CAP_PERFMON. Otherwise Start returns an error that says what to do. When the process ends, in
// whatever way, the kernel removes the eBPF programs.
//
// The package is only for the agent: programs that log do not import it.
package capture
