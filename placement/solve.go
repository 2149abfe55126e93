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

// DefaultEffort returns an effort with which Solve takes a few seconds for 200 operators on 1,000
// nodes, and much less for small jobs.
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
	at, err := p.placeGreedily(l, p.order)
	if err != nil {
		return Answer{}, err
	}
	limit := l.leastLatency()
	at, latency := newSearch(p, l, at, 0).run(effort.Changes/100, roundedLimit(limit))
	at, latency, exact := p.finishProof(l, at, latency, &limit, effort.Choices/10)
	for seed := range uint64(effort.Searches) {
		if exact {
			break
		}
		at, latency = newSearch(p, l, at, 1+seed).run(effort.Changes, roundedLimit(limit))
		exact = latency <= roundedLimit(limit)
	}
	if !exact {
		at, latency, exact = p.finishProof(l, at, latency, &limit, effort.Choices)
	}
	if !exact {
		limit = p.raiseLimit(l, limit, latency, effort.Raises)
	}
	a := Answer{At: at, End: p.End(at), Limit_ns: limit, Exact: exact}
	if exact {
		a.Limit_ns = a.End.Latency.Hi_ns
	}
	return a, nil
}

// roundedLimit returns the largest latency that counts as equal to the limit. Sums are rounded, so
// the result is a little larger than the limit.
func roundedLimit(limit float64) float64 { return limit * (1 + 1e-9) }

// finishProof raises the limit, and tries to prove which placement is the best. It returns the best
// placement that it knows, its latency, and whether it is proven to be the best.
func (p *Problem) finishProof(
	l *lowerLimits, at Placement, latency float64, limit *float64, choices int,
) (Placement, float64, bool) {
	nodes, ok := l.nodesBelow(latency)
	if !ok {
		return at, latency, true
	}
	l = newLimits(p, nodes)
	*limit = max(*limit, min(l.leastLatency(), latency))
	if *limit == latency || l.isOverfull() {
		return at, latency, true
	}
	return p.prove(l, at, latency, choices)
}

// raiseLimit returns a higher limit, if it can show that no placement has a latency below that
// limit. It tries this the given number of times, each time with the middle between the limit and
// the known latency.
func (p *Problem) raiseLimit(l *lowerLimits, limit, latency float64, times int) float64 {
	for range times {
		if goal := (limit + latency) / 2; p.isImpossible(l, goal) {
			limit = goal
		} else {
			latency = goal
		}
	}
	return limit
}

// isImpossible reports whether the limits show that no placement is faster than goal. A node that
// is excluded for one operator often excludes nodes for other operators, so the limits are computed
// again as long as this excludes many.
func (p *Problem) isImpossible(l *lowerLimits, goal float64) bool {
	before := count(l.nodes)
	for {
		nodes, ok := l.nodesBelow(goal)
		if !ok {
			return true
		}
		left := count(nodes)
		if left*100 > before*98 {
			return false
		}
		before = left
		if l = newLimits(p, nodes); l.isOverfull() {
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
