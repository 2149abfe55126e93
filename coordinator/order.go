package coordinator

import (
	"cmp"
	"slices"
	"strings"
)

// sortedPairs returns the keys of a map in order. A key is two nodes' names.
func sortedPairs[V any](m map[[2]string]V) [][2]string {
	keys := make([][2]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.SortFunc(keys, func(a, b [2]string) int {
		return cmp.Or(strings.Compare(a[0], b[0]), strings.Compare(a[1], b[1]))
	})
	return keys
}

func (c *core) sortedPairs() []pairKey {
	keys := make([]pairKey, 0, len(c.pairs))
	for k := range c.pairs {
		keys = append(keys, k)
	}
	slices.SortFunc(keys, func(x, y pairKey) int {
		return cmp.Or(strings.Compare(x.a, y.a), strings.Compare(x.b, y.b),
			strings.Compare(x.epochA, y.epochA), strings.Compare(x.epochB, y.epochB))
	})
	return keys
}
