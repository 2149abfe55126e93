package placement

import "fmt"

// Answer is what Solve found.
type Answer struct {
	At  Placement
	End End

	// No placement has an end-to-end latency below Limit_ns, if everything takes as long as it can.
	Limit_ns float64

	// If Exact is true, no placement is better, and Limit_ns is the upper end of End.Latency.
	Exact bool
}

// Gap returns how far the latency that was found is above the limit, divided by the limit.
func (a Answer) Gap() float64 {
	if a.Exact {
		return 0
	}
	return a.End.Latency.Hi_ns/a.Limit_ns - 1
}

// Effort limits the work of Solve. A greater effort takes longer, and may find a better placement
// or prove more.
type Effort struct {
	Changes  int // how many changes each search tries
	Searches int // how often the search begins again at the best placement
	Raises   int // how often Solve tries to raise the limit
	Choices  int // how many choices of a node the proof looks at
}

// With DefaultEffort, Solve takes a few seconds for 200 operators on 1,000 nodes, and much less for
// small jobs.
func DefaultEffort() Effort {
	return Effort{Changes: 1_500_000, Searches: 2, Raises: 4, Choices: 40_000_000}
}

// Solve finds a placement whose end-to-end latency is as small as possible, if everything takes as
// long as it can. If the nodes have too few cores for the placement that Solve tries first, the
// error wraps ErrJob.
func (p *Problem) Solve(effort Effort) (Answer, error) {
	l := newLimits(p, p.allows)
	for i, cores := range l.cores {
		if cores < 0 {
			return Answer{}, fmt.Errorf("the operators that may run only on node %q need %.3g "+
				"cores more than it has: %w", p.job.Nodes[i].Name, -cores, ErrJob)
		}
	}
	at, err := p.greedy(l, p.order)
	if err != nil {
		return Answer{}, err
	}
	limit := l.least()
	at, latency := newSearch(p, l, at, 0).run(effort.Changes/100, reached(limit))
	at, latency, exact := p.finish(l, at, latency, &limit, effort.Choices/10)
	for seed := range uint64(effort.Searches) {
		if exact {
			break
		}
		at, latency = newSearch(p, l, at, 1+seed).run(effort.Changes, reached(limit))
		exact = latency <= reached(limit)
	}
	if !exact {
		at, latency, exact = p.finish(l, at, latency, &limit, effort.Choices)
	}
	if !exact {
		limit = p.raise(l, limit, latency, effort.Raises)
	}
	a := Answer{At: at, End: p.End(at), Limit_ns: limit, Exact: exact}
	if exact {
		a.Limit_ns = a.End.Latency.Hi_ns
	}
	return a, nil
}

// reached returns the largest latency that counts as equal to the limit. Sums are rounded, so the
// result is a little larger than the limit.
func reached(limit float64) float64 { return limit * (1 + 1e-9) }

// finish raises the limit, and tries to prove which placement is the best. It returns the best
// placement that it knows, its latency, and whether it is proven to be the best.
func (p *Problem) finish(
	l *limits, at Placement, latency float64, limit *float64, choices int,
) (Placement, float64, bool) {
	nodes, ok := l.below(latency)
	if !ok {
		return at, latency, true
	}
	l = newLimits(p, nodes)
	*limit = max(*limit, min(l.least(), latency))
	if *limit == latency || l.overfull() {
		return at, latency, true
	}
	return p.prove(l, at, latency, choices)
}

// raise returns a higher limit, if it can show that no placement has a latency below that limit. It
// tries this the given number of times, each time with the middle between the limit and the known
// latency.
func (p *Problem) raise(l *limits, limit, latency float64, times int) float64 {
	for range times {
		if goal := (limit + latency) / 2; p.impossible(l, goal) {
			limit = goal
		} else {
			latency = goal
		}
	}
	return limit
}

// impossible reports whether the limits show that no placement is faster than goal. When a node is
// excluded for one operator, this often excludes nodes for other operators.
func (p *Problem) impossible(l *limits, goal float64) bool {
	before := count(l.nodes)
	for {
		nodes, ok := l.below(goal)
		if !ok {
			return true
		}
		left := count(nodes)
		if left*100 > before*98 {
			return false
		}
		before = left
		if l = newLimits(p, nodes); l.overfull() {
			return true
		}
	}
}

func count(nodes [][]int) (n int) {
	for _, on := range nodes {
		n += len(on)
	}
	return n
}
