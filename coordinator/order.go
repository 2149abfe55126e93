package coordinator

import (
	"cmp"
	"slices"
	"strings"
)

// sortedPairs returns the keys of a map in order. A key is the names of two nodes.
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

// sortedPairs returns the sorted keys of the pairs for which want returns true, or of all pairs if
// want is nil.
func (c *core) sortedPairs(want func(*pair) bool) []pairKey {
	keys := make([]pairKey, 0, len(c.pairs))
	for k, p := range c.pairs {
		if want == nil || want(p) {
			keys = append(keys, k)
		}
	}
	slices.SortFunc(keys, func(x, y pairKey) int {
		return cmp.Or(strings.Compare(x.a, y.a), strings.Compare(x.b, y.b),
			strings.Compare(x.epochA, y.epochA), strings.Compare(x.epochB, y.epochB))
	})
	return keys
}

// graphRounds returns the edges of the graph between the given nodes, in rounds of disjoint pairs.
// If only new edges are wanted, it leaves out those that were measured before.
func (c *core) graphRounds(names []string, onlyNew bool) [][][2]string {
	return disjointRounds(slices.DeleteFunc(c.edges(), func(p [2]string) bool {
		_, a := slices.BinarySearch(names, p[0])
		_, b := slices.BinarySearch(names, p[1])
		return !a || !b || onlyNew && c.wereMeasured(p)
	}))
}

// disjointRounds puts pairs into rounds. Each round contains as many of the remaining pairs as
// possible, but no two that have a node in common.
func disjointRounds(pairs [][2]string) (rounds [][][2]string) {
	for len(pairs) > 0 {
		busy := map[string]bool{}
		var round, rest [][2]string
		for _, p := range pairs {
			if busy[p[0]] || busy[p[1]] {
				rest = append(rest, p)
				continue
			}
			busy[p[0]], busy[p[1]] = true, true
			round = append(round, p)
		}
		rounds, pairs = append(rounds, round), rest
	}
	return rounds
}

// roundsOf returns all pairs of the numbers 0 to n−1, in rounds of disjoint pairs. If n is even,
// there are n−1 rounds. If n is odd, there are n rounds, and in each of them a different number has
// no partner.
//
// This is the circle method: one number stands still, the other numbers walk around it, and numbers
// that face each other form a pair.
func roundsOf(n int) [][][2]int {
	if n < 2 {
		return nil
	}
	m := n + n%2 // if n is odd, the number n stands for "no partner"
	rounds := make([][][2]int, 0, m-1)
	for r := range m - 1 {
		round := make([][2]int, 0, m/2)
		for i := range m / 2 {
			a, b := (r+i)%(m-1), (r+m-1-i)%(m-1)
			if i == 0 {
				b = m - 1
			}
			if a < n && b < n {
				round = append(round, [2]int{min(a, b), max(a, b)})
			}
		}
		rounds = append(rounds, round)
	}
	return rounds
}
