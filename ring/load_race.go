//go:build race && amd64

package ring

// load reads a word of a mapping that others write. Under the race detector an atomic access is a
// call of C code. If that faults, the runtime makes no panic that guard could catch, so a file that
// shrank would end the test. On amd64 a plain load of a word is atomic, and the call keeps the
// compiler from moving it. The detector ignores mappings anyway.
//
//go:norace
//go:noinline
func load(from *uint64) uint64 { return *from }
