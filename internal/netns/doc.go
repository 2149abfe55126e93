// Package netns makes network namespaces with links between them, a pair or a star: nodes on one machine whose packets go
// through the kernel's whole way. It is for tests, benchmarks and the demonstration, where they run as root, and needs no program beside the
// kernel.
//
// It limits neither bandwidth nor delay, and makes no namespace of another kind: clocks, files and users are shared.
package netns
