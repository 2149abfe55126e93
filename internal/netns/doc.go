// Package netns makes network namespaces with links between them, as a pair or a star. They are
// nodes on one machine whose packets take the kernel's whole path. The package is for tests,
// benchmarks and the demonstration when they run as root. It requires no program besides the
// kernel.
//
// It limits neither bandwidth nor delay, and makes no other kind of namespace: clocks, files and
// users are shared.
package netns
