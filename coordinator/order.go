package coordinator

import (
	"cmp"
	"slices"
)

func compare(a, b string) int { return cmp.Compare(a, b) }

// sortedPairs returns a map's pairs in the order of their names.
func sortedPairs[V any](m map[[2]string]V) [][2]string {
	keys := make([][2]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.SortFunc(keys, func(a, b [2]string) int { return cmp.Or(compare(a[0], b[0]), compare(a[1], b[1])) })
	return keys
}

func (c *Core) sortedPairs() []pairKey {
	keys := make([]pairKey, 0, len(c.pairs))
	for k := range c.pairs {
		keys = append(keys, k)
	}
	slices.SortFunc(keys, func(x, y pairKey) int {
		return cmp.Or(compare(x.a, y.a), compare(x.b, y.b), compare(x.epochA, y.epochA), compare(x.epochB, y.epochB))
	})
	return keys
}
