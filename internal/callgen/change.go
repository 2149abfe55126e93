package callgen

import (
	"math/rand/v2"
	"slices"

	"github.com/cloudprofiler/cloudprofiler/blackbox/calls"
)

// Compress divides the times between the beginnings of paths by a factor. The times within a path
// stay the same. So more paths overlap.
func Compress(set *calls.Set, factor float64) {
	begins := make([]int64, set.Paths)
	for i := range begins {
		begins[i] = calls.Unknown
	}
	first := int64(calls.Unknown)
	for i := range set.Calls { // sorted by when they begin
		t := set.Calls[i].Began_ns()
		if first == calls.Unknown {
			first = t
		}
		if p := set.Path[i]; begins[p] == calls.Unknown {
			begins[p] = t
		}
	}
	q := set.Quantum_ns
	for i := range set.Calls {
		since := begins[set.Path[i]] - first
		shift := int64(float64(since)/factor) - since
		shift -= shift % q
		for _, t := range moments(&set.Calls[i]) {
			if *t != calls.Unknown {
				*t += shift
			}
		}
	}
	set.Arrange()
}

// WithOtherClocks returns a copy of a set with other clocks, see ShiftClocks. The list old has, for
// each call of the copy, its number in the set.
func WithOtherClocks(set *calls.Set, most_ns int64, seed uint64) (shifted *calls.Set, old []int32) {
	c := *set
	c.Calls = slices.Clone(set.Calls)
	c.Path = make([]int32, len(set.Path))
	for i := range c.Path {
		c.Path[i] = int32(i)
	}
	ShiftClocks(&c, most_ns, seed)
	old, c.Path = c.Path, make([]int32, len(set.Path))
	for i := range old {
		c.Path[i] = set.Path[old[i]]
	}
	return &c, old
}

// ShiftClocks adds a random offset of no more than most_ns to all moments of a place. Each place
// has its own offset.
func ShiftClocks(set *calls.Set, most_ns int64, seed uint64) {
	random := rand.New(rand.NewPCG(seed, 7))
	offsets := make([]int64, len(set.Places))
	for i := range offsets {
		offsets[i] = random.Int64N(2*most_ns+1) - most_ns
	}
	for i := range set.Calls {
		c := &set.Calls[i]
		at := [4]int32{c.Caller, c.Callee, c.Callee, c.Caller}
		for k, t := range moments(c) {
			if *t != calls.Unknown && at[k] >= 0 {
				*t += offsets[at[k]]
			}
		}
	}
	set.Arrange()
}

// moments returns the four moments of a call, in their order.
func moments(c *calls.Call) [4]*int64 {
	return [4]*int64{&c.Sent_ns, &c.Received_ns, &c.Replied_ns, &c.Got_ns}
}
