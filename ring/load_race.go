//go:build race && amd64

package ring

// load reads a word of a mapping to which other processes write. Under the race detector, an atomic
// access is a call of C code. A fault in C code does not become a panic that guard could catch, so
// a file that shrank would end the test. On amd64 a plain load of a word is atomic. The compiler
// cannot move the load, because load is not inlined. The race detector does not examine mappings.
//
//go:norace
//go:noinline
func load(from *uint64) uint64 { return *from }
