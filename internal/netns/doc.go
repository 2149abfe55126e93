// Package netns makes network namespaces with links between them, as a pair or a star. The
// namespaces act as nodes on one machine, and packets between them pass through the kernel's whole
// network stack. The package serves tests, benchmarks and the demonstration when they run as root.
// It requires no other program.
//
// The package limits neither bandwidth nor delay, except with SlowLoopback. The namespaces separate
// only networks: they share clocks, files and users.
package netns
