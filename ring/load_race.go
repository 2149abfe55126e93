//go:build race && amd64

package ring

// load reads a word of a mapping that others write. With the race detector an atomic access is a call of C code, of whose faults the
// runtime makes no panic that guard could catch: a file that shrank would be the end of a test. On amd64 a plain load of a word is an
// atomic one, and the call keeps the compiler from moving it. The detector ignores mappings in any case.
//
//go:norace
//go:noinline
func load(from *uint64) uint64 { return *from }
