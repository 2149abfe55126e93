package tscratio

import (
	"cmp"
	"container/heap"
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
	needed := c.third.needed()
	thirds := slices.Collect(c.over(from, into))
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
		// If paths disagree, that is the error to report, even if another method failed before, for
		// lack of a relation.
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
	// More paths narrow an interval less and less: in a random graph each is longer than the one
	// before.
	maxDisjoint = 8

	// maxHops is the largest number of relations in a path. In a random graph in which 10,000 nodes
	// probe seven others each, the longest of the shortest paths has five.
	maxHops = 8

	// maxRemembered is the number of pairs of nodes whose paths are remembered.
	maxRemembered = 1 << 14
)

// longerPaths remembers the paths that were found. Any number of goroutines may use it.
type longerPaths struct {
	weighed sync.Once
	doubted sync.Once
	agreed  int // once doubted: see agreement
	mu      sync.Mutex
	known   map[[2]int][]path
}

// add returns the given paths over one third node, and more paths over several, up to maxDisjoint
// in all. If no two of the given paths have a third node in common, no two of the returned paths
// have one.
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
	used := map[int]bool{}
	for _, p := range over {
		used[c.index(p[0].Into.Name)] = true
	}
	all := slices.Clip(over)
	for len(all) < maxDisjoint {
		p := c.lightest(from, into, used)
		if p == nil {
			break
		}
		for _, r := range p[:len(p)-1] {
			used[c.index(r.Into.Name)] = true
		}
		all = append(all, p)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.known == nil || len(l.known) >= maxRemembered {
		l.known = map[[2]int][]path{}
	}
	l.known[key] = all
	return all
}

// lightest returns the path of the smallest weight that leads over no used node, or nil. It
// searches from both ends at once (Dijkstra's algorithm), because each end sees few nodes until the
// two searches meet.
func (c *Closure) lightest(from, into int, used map[int]bool) path {
	forth := newFrontier(c, from, into, used, func(v int, e edge) *edge { return &e })
	back := newFrontier(c, into, from, used, func(v int, e edge) *edge {
		return c.edge(e.into, v) // the path crosses the relation from there to here
	})
	best, middle := math.Inf(1), -1
	for forth.least()+back.least() < best {
		f, other := forth, back
		if back.least() < forth.least() {
			f, other = back, forth
		}
		for _, v := range f.step() {
			x, y := f.reached[v], other.reached[v]
			if y == nil || x.hops+y.hops > maxHops || x.weight+y.weight >= best {
				continue
			}
			best, middle = x.weight+y.weight, v
		}
	}
	if middle < 0 {
		return nil
	}
	var p path
	for v := middle; v != from; v = forth.reached[v].before {
		p = append(p, forth.reached[v].by)
	}
	slices.Reverse(p)
	for v := middle; v != into; v = back.reached[v].before {
		p = append(p, back.reached[v].by)
	}
	return p
}

// frontier is one of the two searches of lightest.
type frontier struct {
	c       *Closure
	end     int // the other search's start
	used    map[int]bool
	cross   func(v int, e edge) *edge // the relation that a path crosses between v and e.into
	reached map[int]*reach
	waiting reaches
}

type reach struct {
	node, before, hops int
	weight             float64
	by                 *Relation
	done               bool
}

func newFrontier(
	c *Closure, start, end int, used map[int]bool, cross func(int, edge) *edge,
) *frontier {
	s := &reach{node: start}
	return &frontier{c, end, used, cross, map[int]*reach{start: s}, reaches{s}}
}

// least returns the weight of the lightest way that step will extend.
func (f *frontier) least() float64 {
	for len(f.waiting) > 0 && f.waiting[0].done {
		heap.Pop(&f.waiting)
	}
	if len(f.waiting) == 0 {
		return math.Inf(1)
	}
	return f.waiting[0].weight
}

// step takes the lightest way, and extends it by each relation that leads on from its end. It
// returns the nodes to which it found a lighter way. The caller must have called least.
func (f *frontier) step() (lighter []int) {
	s := heap.Pop(&f.waiting).(*reach)
	s.done = true
	if s.hops == maxHops || s.node == f.end {
		return nil
	}
	for _, e := range f.c.edges[s.node] {
		if f.used[e.into] {
			continue
		}
		x := f.cross(s.node, e)
		if x == nil {
			continue
		}
		if known := f.reached[e.into]; known != nil {
			if known.done || known.weight <= s.weight+x.weight {
				continue
			}
			known.done = true // the lighter way replaces it
		}
		next := &reach{e.into, s.node, s.hops + 1, s.weight + x.weight, x.r, false}
		f.reached[e.into] = next
		heap.Push(&f.waiting, next)
		lighter = append(lighter, e.into)
	}
	return lighter
}

type reaches []*reach

func (s reaches) Len() int { return len(s) }
func (s reaches) Less(i, j int) bool {
	return cmp.Or(cmp.Compare(s[i].weight, s[j].weight), cmp.Compare(s[i].node, s[j].node)) < 0
}
func (s reaches) Swap(i, j int) { s[i], s[j] = s[j], s[i] }
func (s *reaches) Push(x any)   { *s = append(*s, x.(*reach)) }
func (s *reaches) Pop() any {
	last := (*s)[len(*s)-1]
	*s = (*s)[:len(*s)-1]
	return last
}

// weigh gives every relation its weight: the width of its intervals in the middle of the readings
// that it translates, in nanoseconds. Weights add up along a path, as widths do. A relation that
// covers less time than others weighs more, because a path is of use only while all of its
// relations are. Suspect relations weigh so much that a path avoids them wherever another one
// leads.
func (c *Closure) weigh() {
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
