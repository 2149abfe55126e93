package channel

import "math/bits"

// SampleDepth returns the depth of an id, a number that depends only on the id. One id in 2^k has a
// depth of at least k. If all nodes take only the ids with a depth of at least k, they take the
// same tuples. If nodes choose different k, all of them have the ids with a depth of at least the
// greatest of these k.
func SampleDepth(id uint64) int {
	// Programs count their ids upwards, so the bits of ids are far from random. This is the
	// finalizer of MurmurHash3: every bit of its result depends on every bit of the id.
	id ^= id >> 33
	id *= 0xff51afd7ed558ccd
	id ^= id >> 33
	id *= 0xc4ceb9fe1a85ec53
	id ^= id >> 33
	return bits.LeadingZeros64(id)
}
