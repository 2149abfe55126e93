package coordinator

import (
	"cmp"
	"slices"
)

// NodesRequest is the argument of AskNodes.
type NodesRequest struct {
	// ListMost is the number of nodes in the largest fleet of which the answer lists all nodes and
	// pairs. Of a larger fleet, the answer has a Summary, which takes the server and the asker much
	// less time. 0 stands for any number.
	ListMost int `json:"list_most,omitempty"`
}

// Summary sums up the nodes, pairs and faults of a Matrix.
type Summary struct {
	Nodes    int          `json:"nodes"`
	Here     int          `json:"here"` // nodes that are not gone
	Related  int          `json:"related_pairs"`
	Faults   int          `json:"faults"`
	Healthy  bool         `json:"healthy"`
	Measured Distribution `json:"measured"` // of the related pairs, in both directions
	Sampled  Distribution `json:"sampled"`  // of random pairs

	// Largest has the related pairs with the largest bounds, the largest first.
	Largest []PairStatus `json:"largest"`
}

// Distribution is a distribution of bounds.
type Distribution struct {
	Count int `json:"count"` // how many bounds there are

	// Bounds_ns has the bounds, sorted. If there are more than 401, Bounds_ns has only 401 of them:
	// the smallest, the largest, and 399 between them, at equal distances in the sorted list.
	Bounds_ns []float64 `json:"bounds_ns"`
}

// At returns the bound that the given percentage of all bounds does not exceed. The list of bounds
// must not be empty.
func (d Distribution) At(percent int) float64 {
	return d.Bounds_ns[(len(d.Bounds_ns)-1)*percent/100]
}

// newDistribution returns the distribution of sorted bounds.
func newDistribution(sorted []float64) Distribution {
	const steps = 400
	d := Distribution{Count: len(sorted), Bounds_ns: sorted}
	if last := len(sorted) - 1; last > steps {
		d.Bounds_ns = nil
		for i := range steps + 1 {
			d.Bounds_ns = append(d.Bounds_ns, sorted[last*i/steps])
		}
	}
	return d
}

// largestPairs is how many pairs a summary names.
const largestPairs = 8

// Summarize returns the Summary of the matrix.
func (m *Matrix) Summarize() *Summary {
	if m.Summary != nil {
		return m.Summary
	}
	s := &Summary{Nodes: len(m.Nodes), Faults: len(m.Faults), Healthy: m.Healthy(),
		Sampled: newDistribution(m.SampledBounds_ns)}
	for _, n := range m.Nodes {
		if n.Alive {
			s.Here++
		}
	}
	var bounds []float64
	var worst []PairStatus
	for _, p := range m.Pairs {
		if p.Hi_cycles == 0 || p.Old || p.GivenUp {
			continue
		}
		if p.From < p.Into {
			s.Related++
		}
		bounds = append(bounds, p.Bound_ns)
		worst = append(worst, p)
	}
	slices.Sort(bounds)
	s.Measured = newDistribution(bounds)
	slices.SortStableFunc(worst, func(x, y PairStatus) int {
		return cmp.Compare(y.Bound_ns, x.Bound_ns)
	})
	shown := map[[2]string]bool{}
	for _, p := range worst {
		ends := [2]string{min(p.From, p.Into), max(p.From, p.Into)}
		if shown[ends] {
			continue // the other direction has a larger bound
		}
		if shown[ends] = true; len(shown) > largestPairs {
			break
		}
		s.Largest = append(s.Largest, p)
	}
	return s
}

// brief returns the matrix with a Summary instead of long lists.
func (m *Matrix) brief() *Matrix {
	short := *m
	short.Summary = m.Summarize()
	short.Nodes, short.Pairs, short.Faults, short.SampledBounds_ns = nil, nil, nil, nil
	if m.Sweep != nil {
		sweep := *m.Sweep
		sweep.Lost, sweep.Noisy, short.Sweep = nil, nil, &sweep
	}
	return &short
}
