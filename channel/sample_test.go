package channel

import (
	"math"
	"testing"
)

// Nodes of different versions must sample the same tuples, so these depths never change.
func TestSampleDepths(t *testing.T) {
	for id, want := range map[uint64]int{0: 64, 1: 0, 2: 2, 564: 11, 1 << 50: 0, Poison: 1} {
		if got := SampleDepth(id); got != want {
			t.Errorf("id %d has depth %d, want %d", id, got, want)
		}
	}
}

// Of consecutive ids, one in 2^k has depth k or more, whatever node and instance made the ids.
func TestSampleIsOneIn(t *testing.T) {
	const ids, k = 1 << 20, 7
	for _, node := range []int{0, 1, MaxNode - 1} {
		first, err := NewID(node, 3, 0)
		if err != nil {
			t.Fatal(err)
		}
		deep := 0
		for i := range uint64(ids) {
			if SampleDepth(first+i) >= k {
				deep++
			}
		}
		want := float64(ids >> k)
		if off := math.Abs(float64(deep) - want); off > 6*math.Sqrt(want) {
			t.Errorf("node %d: %d of %d ids have depth %d, want %.0f", node, deep, ids, k, want)
		}
	}
}
