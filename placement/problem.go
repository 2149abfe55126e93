package placement

import (
	"fmt"
	"math"
	"slices"
)

// Problem is a checked job, prepared for Solve. It is immutable.
type Problem struct {
	job    *Job
	order  []int   // the operators, each after all that send to it
	before [][]int // by operator: its senders
	after  [][]int // by operator: its receivers
	allows [][]int // by operator: the nodes where it may run and fits alone, ascending

	n    int
	work []float64 // by operator and node: its longest working time on a tuple, in ns
	load []float64 // by operator and node: the number of the node's cores that it uses
	far  []float64 // by node and node: the longest latency, in ns
	back []float64 // the same, with the receiver's node first
}

// New checks a job and prepares it. Errors wrap ErrJob. The job must not change afterwards.
func New(j *Job) (*Problem, error) {
	if err := j.Check(); err != nil {
		return nil, err
	}
	ops, n := len(j.Operators), len(j.Nodes)
	p := &Problem{
		job: j, n: n, before: make([][]int, ops), after: make([][]int, ops),
		allows: make([][]int, ops), work: make([]float64, ops*n), load: make([]float64, ops*n),
		far: make([]float64, n*n), back: make([]float64, n*n),
	}
	for _, e := range j.Edges {
		if !slices.Contains(p.after[e.From], e.To) {
			p.after[e.From] = append(p.after[e.From], e.To)
			p.before[e.To] = append(p.before[e.To], e.From)
		}
	}
	if err := p.sortOperators(); err != nil {
		return nil, err
	}
	for i, row := range j.Latency {
		for k, l := range row {
			p.far[i*n+k], p.back[k*n+i] = l.Hi_ns, l.Hi_ns
		}
	}
	for v, o := range j.Operators {
		may := make([]bool, n)
		for _, i := range o.Nodes {
			may[i] = true
		}
		for i, node := range j.Nodes {
			p.work[v*n+i] = o.Time.Hi_ns / node.Speed
			p.load[v*n+i] = p.work[v*n+i] * o.PerSecond / 1e9
			if (o.Nodes == nil || may[i]) && p.load[v*n+i] <= largestLoad(node.Cores) {
				p.allows[v] = append(p.allows[v], i)
			}
		}
		if len(p.allows[v]) == 0 {
			return nil, fmt.Errorf("operator %q needs %.3g cores of speed 1, which no node where "+
				"it may run has: give it more instances: %w", o.Name,
				o.Time.Hi_ns*o.PerSecond/1e9, ErrJob)
		}
	}
	return p, nil
}

// largestLoad returns the largest load that a node may have. It is a little larger than the number
// of the node's cores, because sums of loads are rounded.
func largestLoad(cores float64) float64 { return cores * (1 + 1e-9) }

// sortOperators puts each operator after all that send to it.
func (p *Problem) sortOperators() error {
	waits := make([]int, len(p.before))
	for v, before := range p.before {
		waits[v] = len(before)
		if waits[v] == 0 {
			p.order = append(p.order, v)
		}
	}
	for i := 0; i < len(p.order); i++ {
		for _, w := range p.after[p.order[i]] {
			if waits[w]--; waits[w] == 0 {
				p.order = append(p.order, w)
			}
		}
	}
	if len(p.order) == len(p.before) {
		return nil
	}
	v := slices.IndexFunc(waits, func(n int) bool { return n > 0 })
	for range waits { // each step leads to an operator that also waits, and so into a cycle at last
		v = p.before[v][slices.IndexFunc(p.before[v], func(u int) bool { return waits[u] > 0 })]
	}
	return fmt.Errorf("operator %q gets its own tuples back through others: leave one edge "+
		"of this cycle out: %w", p.job.Operators[v].Name, ErrJob)
}

// End is the end-to-end latency of a placed job: the sum of work and latencies along the slowest
// path from a source to a sink.
type End struct {
	Latency Range
	Path    []int // the operators of the slowest path, if everything takes as long as it can
}

// End returns the end-to-end latency of a placement.
func (p *Problem) End(at Placement) End {
	var e End
	lo, _ := p.slowestPath(at, func(v int) float64 {
		return p.job.Operators[v].Time.Lo_ns / p.job.Nodes[at[v]].Speed
	}, func(u, v int) float64 { return p.job.Latency[at[u]][at[v]].Lo_ns })
	hi, path := p.slowestPath(at, func(v int) float64 { return p.work[v*p.n+at[v]] },
		func(u, v int) float64 { return p.far[at[u]*p.n+at[v]] })
	e.Latency, e.Path = Range{lo, hi}, path
	return e
}

// slowestPath returns the length of the longest path of operators, and the path.
func (p *Problem) slowestPath(
	at Placement, work func(v int) float64, latency func(u, v int) float64,
) (longest float64, path []int) {
	done, by := make([]float64, len(at)), make([]int, len(at))
	last := -1
	for _, v := range p.order {
		by[v] = -1
		ready := math.Inf(-1)
		for _, u := range p.before[v] {
			if t := done[u] + latency(u, v); t > ready {
				ready, by[v] = t, u
			}
		}
		if by[v] < 0 {
			ready = 0
		}
		done[v] = ready + work(v)
		if len(p.after[v]) == 0 && (last < 0 || done[v] > longest) {
			longest, last = done[v], v
		}
	}
	for v := last; v >= 0; v = by[v] {
		path = append(path, v)
	}
	slices.Reverse(path)
	return longest, path
}

// Loads returns how many of each node's cores a placement uses.
func (p *Problem) Loads(at Placement) []float64 {
	loads := make([]float64, p.n)
	for v, i := range at {
		loads[i] += p.load[v*p.n+i]
	}
	return loads
}

// Allowed returns an error that wraps ErrJob if the placement puts an operator on a node where it
// must not run, or gives a node more work than its cores can do.
func (p *Problem) Allowed(at Placement) error {
	if len(at) != len(p.order) {
		return fmt.Errorf("placement of %d operators, want %d: %w", len(at), len(p.order), ErrJob)
	}
	for v, i := range at {
		if !slices.Contains(p.allows[v], i) {
			return fmt.Errorf("operator %q may not run on node %d, or needs more cores than it "+
				"has: %w", p.job.Operators[v].Name, i, ErrJob)
		}
	}
	for i, load := range p.Loads(at) {
		if node := p.job.Nodes[i]; load > largestLoad(node.Cores) {
			return fmt.Errorf("operators on node %q use %.3g of its %.3g cores: %w", node.Name,
				load, node.Cores, ErrJob)
		}
	}
	return nil
}
