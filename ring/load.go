//go:build !(race && amd64)

package ring

import "sync/atomic"

// load reads a word of a mapping to which other processes write.
func load(from *uint64) uint64 { return atomic.LoadUint64(from) }
