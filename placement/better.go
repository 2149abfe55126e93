package placement

// Difference is a range, in nanoseconds. It contains the difference of two end-to-end latencies:
// the first minus the second.
type Difference struct{ Lo_ns, Hi_ns float64 }

// SurelyFaster reports whether the first placement is faster than the second for all latencies and
// working times within their ranges.
func (d Difference) SurelyFaster() bool { return d.Hi_ns < 0 }

// SurelySlower reports whether the first placement is slower for all latencies and working times
// within their ranges.
func (d Difference) SurelySlower() bool { return d.Lo_ns > 0 }

func (d Difference) String() string {
	switch {
	case d.SurelyFaster():
		return "surely better"
	case d.SurelySlower():
		return "surely worse"
	}
	return "undecided"
}

// Better compares two placements. It returns the range of the difference: the end-to-end latency of
// the first minus that of the second. The parts that both placements have in common do not widen
// the range, because the same operators on the same nodes take the same time in both.
func (p *Problem) Better(a, b Placement) Difference {
	return Difference{-p.largestDifference(b, a), p.largestDifference(a, b)}
}

// largestDifference returns an upper limit of the latency of placement a minus that of placement b.
//
// The latency of b is at least the length of any of its paths. The latency of a is the length of
// its slowest path. So the difference is at most the length of this path minus that of any path of
// b. As the slowest path of a is not known, the largest result over all paths of a counts. The path
// of b is chosen in three ways, and the smallest of the three results is returned:
//   - the path with the same operators,
//   - the slowest path of b with the shortest times,
//   - the slowest path of b with the longest times.
//
// A piece that is in both paths, on the same nodes, cancels out. All other pieces are counted with
// their longest times in a, and with their shortest times in b.
func (p *Problem) largestDifference(a, b Placement) float64 {
	nodes, latency := p.job.Nodes, p.job.Latency
	least := func(v int) float64 { return p.job.Operators[v].Time.Lo_ns / nodes[b[v]].Speed }
	nearest := func(u, v int) float64 { return latency[b[u]][b[v]].Lo_ns }
	longest := func(v int) float64 { return p.work[v*p.n+b[v]] }
	farthest := func(u, v int) float64 { return p.far[b[u]*p.n+b[v]] }
	same := func(v int) bool { return a[v] == b[v] }

	best, _ := p.slowestPath(a, func(v int) float64 {
		if same(v) {
			return 0
		}
		return p.work[v*p.n+a[v]] - least(v)
	}, func(u, v int) float64 {
		if same(u) && same(v) {
			return 0
		}
		return p.far[a[u]*p.n+a[v]] - nearest(u, v)
	})
	_, short := p.slowestPath(b, least, nearest)
	_, long := p.slowestPath(b, longest, farthest)
	for _, path := range [][]int{short, long} {
		follows := make([]int, len(b)) // 1 + the operator before it on the path of b, or 0
		length := 0.0
		for k, v := range path {
			length += least(v)
			follows[v] = len(b) + 1
			if k > 0 {
				length += nearest(path[k-1], v)
				follows[v] = 1 + path[k-1]
			}
		}
		most, _ := p.slowestPath(a, func(v int) float64 {
			if follows[v] > 0 && same(v) {
				return least(v)
			}
			return p.work[v*p.n+a[v]]
		}, func(u, v int) float64 {
			if follows[v] == 1+u && same(u) && same(v) {
				return nearest(u, v)
			}
			return p.far[a[u]*p.n+a[v]]
		})
		best = min(best, most*(1+1e-9)-length) // sums are rounded
	}
	return best
}
