package paths

import (
	"cmp"
	"slices"
)

// fewestRequests is the least number of requests that a pattern must have for its slow and fast
// requests to be compared.
const fewestRequests = 20

// compare compares the slowest tenth of a pattern's requests with the faster half. For each call it
// says how much longer the slow requests waited for this call. The differences of all calls add up
// to the difference of the whole requests.
func (g *group) compare(p *Pattern) {
	var known []int // numbers of the trees
	for i, w := range g.whole {
		if w.known {
			known = append(known, i)
		}
	}
	if len(known) < fewestRequests {
		return
	}
	slices.SortStableFunc(known, func(a, b int) int {
		return cmp.Compare(middle(g.whole[a].Interval), middle(g.whole[b].Interval))
	})
	p.Slow, p.Fast = len(known)/10, len(known)/2
	slow, fast := known[len(known)-p.Slow:], known[:p.Fast]
	difference := func(of func(tree int) Interval) Interval {
		a, b := mean(slow, of), mean(fast, of)
		return Interval{Lo_cycles: a.Lo_cycles - b.Hi_cycles, Hi_cycles: a.Hi_cycles - b.Lo_cycles}
	}
	p.Slower = difference(func(t int) Interval { return g.whole[t].Interval })
	for i := range p.Calls {
		c, of := &p.Calls[i], g.calls[i].critical
		c.SlowerOwn = difference(func(t int) Interval { return of[t].own })
		c.SlowerNetwork = difference(func(t int) Interval { return of[t].network })
	}
}

func middle(i Interval) int64 { return i.Lo_cycles/2 + i.Hi_cycles/2 }

// mean is the mean of intervals, rounded outward.
func mean(of []int, value func(int) Interval) (sum Interval) {
	for _, i := range of {
		sum = plus(sum, value(i))
	}
	n := int64(len(of))
	sum.Lo_cycles, sum.Hi_cycles = sum.Lo_cycles/n-1, sum.Hi_cycles/n+1
	return sum
}
