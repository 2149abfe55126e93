//go:build race && amd64

package ring

// load reads a word of a mapping to which others write. Under the race detector an atomic access is
// a call of C code. A fault in C code does not become a panic that guard could catch, so a file
// that shrank would end the test. On amd64 a plain load of a word is atomic, and because load is
// not inlined, the compiler cannot move it. The detector ignores mappings anyway.
//
//go:norace
//go:noinline
func load(from *uint64) uint64 { return *from }
