package tscratio

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"sync"
)

// path is a way from one node to another: their direct relation, or relations from node to node.
type path []*Relation

func (p path) verdict() (v Verdict) {
	for _, r := range p {
		v = max(v, r.Verdict)
	}
	return v
}

func (p path) nodes() Path {
	names := Path{p[0].From.Name}
	for _, r := range p {
		names = append(names, r.Into.Name)
	}
	return names
}

// count translates an interval of the first node's count into the last node's count.
func (p path) count(c Interval) (Interval, error) {
	for _, r := range p {
		var err error
		if c, err = r.count(c); err != nil {
			return Interval{}, err
		}
	}
	return c, nil
}

// Path names the nodes through which a value was translated: first the node that took the reading,
// and last the node that gives the unit.
type Path []string

func (p Path) String() string { return strings.Join(p, " → ") }

// paths returns all paths from one node to another that ThirdNodes permits, the direct relation
// first. No two paths have a third node in common, so a liar makes at most one of them wrong. If
// there is no path, the error gives the reason.
func (c *Closure) paths(from, into int) ([]path, error) {
	var ps []path
	direct := c.relation(from, into)
	if direct != nil {
		ps = append(ps, path{direct})
	}
	needed := c.third.neededNodes()
	thirds := slices.Collect(c.pathsOver(from, into))
	if direct == nil && c.third != ThirdNone {
		thirds = c.longer.add(c, from, into, thirds)
	}
	if len(thirds) >= needed {
		ps = append(ps, thirds...)
	} else if direct == nil && len(thirds) > 0 {
		return nil, fmt.Errorf("%q and %q were not measured with each other, and %d paths over "+
			"third nodes are too few to relate them with third nodes %v: %w",
			c.names[from], c.names[into], len(thirds), c.third, ErrNoPath)
	}
	if len(ps) == 0 {
		return nil, ErrNoPath
	}
	return ps, nil
}

// search collects the durations that several methods find, and intersects them. If any method is
// consistent, the durations of suspect methods are ignored.
type search struct {
	found     [2]bool // indexed by verdict, like all and best
	all, best [2]Duration
	err       error
}

func (s *search) offer(d Elapsed, by Scenario, v Verdict, err error) {
	if err != nil {
		// If paths disagree, report the disagreement, even if an earlier method failed because a
		// relation was missing.
		var broken *DisagreementError
		if s.err == nil || errors.As(err, &broken) {
			s.err = err
		}
		return
	}
	if !s.found[v] {
		s.found[v] = true
		s.all[v] = Duration{d, by, v}
		s.best[v] = s.all[v]
		return
	}
	if d.Width() < s.best[v].Width() {
		s.best[v] = Duration{d, by, v}
	}
	s.all[v].Elapsed = s.all[v].Elapsed.Intersect(d)
}

func (s *search) result() (Duration, error) {
	var broken *DisagreementError
	if errors.As(s.err, &broken) {
		return Duration{}, s.err
	}
	for _, v := range []Verdict{Consistent, Suspect} {
		if !s.found[v] {
			continue
		}
		d := s.all[v]
		d.Scenario = s.best[v].Scenario
		if !d.Valid() {
			return Duration{}, fmt.Errorf("methods for it have nothing in common (the tightest, "+
				"%v, "+
				"gives %v): %w", d.Scenario, s.best[v].Elapsed, ErrAssumption)
		}
		return d, nil
	}
	return Duration{}, s.err
}

// The rest of this file finds paths over several third nodes. In a large fleet a node probes only a
// few others, so most nodes have neither a relation with each other nor a third node between them.

const (
	// maxDisjoint is the largest number of paths between two nodes that have no direct relation.
	// Each further path narrows the interval less, because in a random graph each path is longer
	// than the one before.
	maxDisjoint = 8

	// maxHops is the largest number of relations in a path. In a random graph in which 10,000 nodes
	// probe seven others each, the longest of the shortest paths has five relations.
	maxHops = 8

	// maxRemembered is the number of pairs of nodes whose paths are remembered.
	maxRemembered = 1 << 14
)

// longerPaths remembers the paths that were found. Any number of goroutines may use it.
type longerPaths struct {
	weighed   sync.Once
	doubted   sync.Once
	agreed    int       // once doubted: see agreement
	frontiers sync.Pool // of *frontiers
	mu        sync.Mutex
	known     map[[2]int][]path
}

// add returns the given paths over one third node, and more paths over several third nodes, up to
// maxDisjoint in all. If no two of the given paths have a third node in common, then no two of the
// returned paths do.
func (l *longerPaths) add(c *Closure, from, into int, over []path) []path {
	if len(over) >= maxDisjoint {
		return over
	}
	l.weighed.Do(c.weigh)
	key := [2]int{from, into}
	l.mu.Lock()
	known, ok := l.known[key]
	l.mu.Unlock()
	if ok {
		return known
	}
	f, _ := l.frontiers.Get().(*twoSearches)
	if f == nil {
		f = newFrontiers(len(c.names))
	}
	all := slices.Clip(over)
	for _, p := range over {
		f.used[c.index(p[0].Into.Name)] = true
	}
	for len(all) < maxDisjoint {
		p := c.lightestPath(from, into, f)
		if p == nil {
			break
		}
		for _, third := range f.thirds {
			f.used[third] = true
		}
		all = append(all, p)
	}
	clear(f.used)
	l.frontiers.Put(f)
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.known == nil || len(l.known) >= maxRemembered {
		l.known = map[[2]int][]path{}
	}
	l.known[key] = all
	return all
}

// lightestPath returns the path of the smallest weight among the paths that avoid the nodes in
// f.used. It returns nil if there is no such path. It runs Dijkstra's algorithm from both ends at
// the same time, because two such searches visit few nodes until they meet.
func (c *Closure) lightestPath(from, into int, f *twoSearches) path {
	f.begin(from, into)
	for {
		forth, back := f.leastWeight(0), f.leastWeight(1)
		if forth+back >= f.best || math.IsInf(forth+back, 1) {
			break
		}
		if back < forth {
			f.extendLightest(c, 1, forth)
		} else {
			f.extendLightest(c, 0, back)
		}
	}
	if f.middle < 0 {
		return nil
	}
	nodes := []int{f.middle}
	for v := f.middle; v != from; {
		v = int(f.reached[v][0].before)
		nodes = append(nodes, v)
	}
	slices.Reverse(nodes)
	for v := f.middle; v != into; {
		v = int(f.reached[v][1].before)
		nodes = append(nodes, v)
	}
	f.thirds = nodes[1 : len(nodes)-1]
	p := make(path, len(nodes)-1)
	for i := range p {
		p[i] = c.relation(nodes[i], nodes[i+1])
	}
	return p
}

// twoSearches contains the two searches for a lightest path, and the nodes that they must not use.
// Its memory is used again by the next search.
type twoSearches struct {
	used []bool // by node
	// indirect says that the direct relation of the two ends must not be used either.
	indirect bool

	search  uint32 // the number of this search; what earlier searches reached does not count
	ends    [2]int
	reached [][2]reachedNode // by node
	waiting [2][]waitingPath
	best    float64 // weight of the lightest path between the ends so far
	middle  int     // node at which the two halves of this path meet; −1: there is no path
	thirds  []int   // third nodes of the last path that lightestPath returned
}

// reachedNode describes the lightest known path from the start of a search to a node.
type reachedNode struct {
	weight float64
	search uint32
	before int32 // the last node before this one
	hops   int16
	done   bool
}

// waitingPath is a path that a search has not extended yet. It is void if the search has found a
// lighter path to the same node since.
type waitingPath struct {
	weight float64
	node   int
}

func newFrontiers(nodes int) *twoSearches {
	return &twoSearches{used: make([]bool, nodes), reached: make([][2]reachedNode, nodes)}
}

func (f *twoSearches) begin(from, into int) {
	f.search++
	f.ends = [2]int{from, into}
	f.best, f.middle = math.Inf(1), -1
	for side, start := range f.ends {
		f.reached[start][side] = reachedNode{search: f.search}
		f.waiting[side] = append(f.waiting[side][:0], waitingPath{0, start})
	}
}

// leastWeight returns the weight of the path that will be extended next: the lightest one.
func (f *twoSearches) leastWeight(side int) float64 {
	for len(f.waiting[side]) > 0 {
		w := f.waiting[side][0]
		if r := &f.reached[w.node][side]; !r.done && r.weight == w.weight {
			return w.weight
		}
		f.pop(side)
	}
	return math.Inf(1)
}

// extendLightest takes the lightest path of one side, and extends it by each relation that leads on
// from its end. It notes where the path meets a path of the other side. The caller must have called
// leastWeight. The parameter other is the least weight of the paths of the other side that have not
// been extended.
func (f *twoSearches) extendLightest(c *Closure, side int, other float64) {
	v := f.pop(side).node
	from := &f.reached[v][side]
	from.done = true
	if from.hops == maxHops || v == f.ends[1-side] {
		return
	}
	for _, e := range c.searchEdges[side][c.starts[v]:c.starts[v+1]] {
		if f.used[e.into] ||
			f.indirect && v == f.ends[side] && int(e.into) == f.ends[1-side] {
			continue
		}
		weight := from.weight + e.weight
		known, met := &f.reached[e.into][side], &f.reached[e.into][1-side]
		if known.search == f.search && (known.done || known.weight <= weight) {
			continue
		}
		meets := met.search == f.search && from.hops+1+met.hops <= maxHops &&
			weight+met.weight < f.best
		if meets {
			f.best, f.middle = weight+met.weight, int(e.into)
		} else if weight+other >= f.best {
			continue // it leads to no lighter path
		}
		*known = reachedNode{weight: weight, search: f.search, before: int32(v),
			hops: from.hops + 1}
		f.push(side, waitingPath{weight, int(e.into)})
	}
}

func (w waitingPath) before(x waitingPath) bool {
	return w.weight < x.weight || w.weight == x.weight && w.node < x.node
}

// push and pop do what the functions of container/heap do, but without allocating memory for each
// path.
func (f *twoSearches) push(side int, w waitingPath) {
	h := append(f.waiting[side], w)
	i := len(h) - 1
	for i > 0 && w.before(h[(i-1)/2]) {
		h[i] = h[(i-1)/2]
		i = (i - 1) / 2
	}
	h[i] = w
	f.waiting[side] = h
}

func (f *twoSearches) pop(side int) waitingPath {
	h := f.waiting[side]
	first, last := h[0], h[len(h)-1]
	h = h[:len(h)-1]
	f.waiting[side] = h
	for i := 0; len(h) > 0; {
		k := 2*i + 1
		if k+1 < len(h) && h[k+1].before(h[k]) {
			k++
		}
		if k >= len(h) || !h[k].before(last) {
			h[i] = last
			break
		}
		h[i] = h[k]
		i = k
	}
	return first
}

// searchEdge is an edge with only what a search from one of the two ends needs. Waiting for memory
// is most of the time of a search.
type searchEdge struct {
	weight float64 // +Inf: the relation that it needs does not exist
	into   int32
}

// addSearchEdges stores the edges of both searches. The search from the second end of a path
// crosses each relation backwards.
func (c *Closure) addSearchEdges() {
	c.starts = append(make([]int32, 0, len(c.edges)+1), 0)
	for v, edges := range c.edges {
		for _, e := range edges {
			backWeight := math.Inf(1)
			if back := c.edge(e.into, v); back != nil {
				backWeight = back.weight
			}
			c.searchEdges[0] = append(c.searchEdges[0], searchEdge{e.weight, int32(e.into)})
			c.searchEdges[1] = append(c.searchEdges[1], searchEdge{backWeight, int32(e.into)})
		}
		c.starts = append(c.starts, int32(len(c.searchEdges[0])))
	}
}

// weigh gives every relation its weight. The relation translates the middle one of its readings to
// an interval, and the weight is the width of this interval in nanoseconds. Weights add up along a
// path, as widths do. A relation that covers less time than others weighs more, because a path can
// be used only for times that all of its relations cover. Suspect relations weigh so much that a
// path contains one only if there is no other path.
func (c *Closure) weigh() {
	defer c.addSearchEdges()
	longest_s := 0.0
	hz := func(n Node) float64 { return float64(max(n.Nominal_hz, 1)) }
	covered_s := func(r *Relation) float64 { return float64(r.limits.Width()) / hz(r.From) }
	for _, edges := range c.edges {
		for _, e := range edges {
			longest_s = max(longest_s, covered_s(e.r))
		}
	}
	for _, edges := range c.edges {
		for i := range edges {
			e := &edges[i]
			const heavy = 1e6
			e.weight = heavy
			if len(e.r.pieces) == 0 {
				continue
			}
			if at, err := e.r.count(At(e.r.limits.Mid())); err == nil {
				e.weight = 1 + 1e9*float64(at.Width())/hz(e.r.Into)
			}
			lack := longest_s / max(covered_s(e.r), 1e-9)
			e.weight *= max(1, lack*lack)
			if e.r.Verdict == Suspect {
				e.weight *= heavy
			}
		}
	}
}
