package tscratio

import (
	"cmp"
	"errors"
	"fmt"
	"iter"
	"maps"
	"math"
	"slices"
	"strings"
)

// ErrNoPath is returned when no chain of relations leads from one node to another.
var ErrNoPath = errors.New("no relation")

// ThirdNodes selects how far other nodes may narrow what is proven about two nodes. A value that
// rests on a third node is only as true as what that node reported. If a node's lie is smaller than
// the bounds along the path, nothing reveals the lie.
type ThirdNodes uint8

const (
	// ThirdAgreed is the default. It moves an end of an interval inward only to a value that two
	// third nodes prove independently. If at most one node lies, in any manner, only that node's
	// own relations become wrong. Where paths contradict each other, two that agree may be too few:
	// see Closure.agreeingPaths.
	ThirdAgreed ThirdNodes = iota

	// ThirdAny narrows each interval by everything that any third node proves. Its intervals are
	// the narrowest, but then every value rests on every node.
	ThirdAny

	// ThirdNone never narrows. However many nodes lie, each lie affects only the liar's own
	// relations.
	ThirdNone
)

var thirdNodes = [...]string{"agreed", "any", "none"}

func (t ThirdNodes) String() string {
	if int(t) < len(thirdNodes) {
		return thirdNodes[t]
	}
	return fmt.Sprintf("third nodes %d", uint8(t))
}

// MarshalText returns "agreed", "any" or "none".
func (t ThirdNodes) MarshalText() ([]byte, error) { return []byte(t.String()), nil }

// UnmarshalText accepts "agreed", "any" or "none".
func (t *ThirdNodes) UnmarshalText(text []byte) error {
	i := slices.Index(thirdNodes[:], string(text))
	if i < 0 {
		return fmt.Errorf("third nodes %q: want one of %s", text, strings.Join(thirdNodes[:], ", "))
	}
	*t = ThirdNodes(i)
	return nil
}

// neededNodes returns the number of third nodes that must agree before an interval is narrowed.
func (t ThirdNodes) neededNodes() int {
	switch t {
	case ThirdAny:
		return 1
	case ThirdAgreed:
		return 2
	}
	return math.MaxInt
}

// Closure relates the nodes of a fleet over third nodes. If φ_AB is the function from B's counter
// to A's, then φ_AC ∘ φ_CB, over any third node C, bounds φ_AB just as a direct relation does. The
// intersection of all such intervals is narrower than each of them. ThirdNodes selects the third
// nodes to believe. Nodes without a direct relation are also related by longer paths. No two of
// these paths have a third node in common. Any number of goroutines may use a Closure, whose
// answers never change.
//
// A path is consistent if all of its relations are consistent. The closure uses other paths only if
// the consistent paths do not suffice, and marks their results as suspect.
type Closure struct {
	third ThirdNodes
	names []string // sorted
	nodes []Node   // in the order of names
	edges [][]edge // edges of each node, by the index of the relation's other node

	// These are the edges for searches, which weigh adds. The first index of searchEdges is the end
	// at which a search begins. Node v has the edges from starts[v] to before starts[v+1].
	starts      []int32
	searchEdges [2][]searchEdge

	longer longerPaths
}

// edge is a relation, and the index of the node into which it leads.
type edge struct {
	into   int
	r      *Relation
	weight float64 // see weigh
}

// NewClosure returns the closure of the given relations. A relation has one direction, so the
// caller gives two relations for every pair.
func NewClosure(relations []*Relation, third ThirdNodes) (*Closure, error) {
	nodes := map[string]Node{}
	for _, r := range relations {
		for _, n := range []Node{r.From, r.Into} {
			if known, ok := nodes[n.Name]; ok && known != n {
				if known.Epoch != n.Epoch {
					return nil, fmt.Errorf("close over %d relations: node %q has epochs %q and "+
						"%q: %w", len(relations), n.Name, known.Epoch, n.Epoch, ErrEpoch)
				}
				return nil, fmt.Errorf("close over %d relations: node %q is described as %+v and "+
					"as %+v: %w", len(relations), n.Name, known, n, ErrAssumption)
			}
			nodes[n.Name] = n
		}
	}
	c := &Closure{third: third, names: slices.Sorted(maps.Keys(nodes))}
	for _, name := range c.names {
		c.nodes = append(c.nodes, nodes[name])
	}
	c.edges = make([][]edge, len(c.names))
	for _, r := range relations {
		from := &c.edges[c.index(r.From.Name)]
		*from = append(*from, edge{into: c.index(r.Into.Name), r: r})
	}
	for _, from := range c.edges {
		slices.SortFunc(from, func(x, y edge) int { return cmp.Compare(x.into, y.into) })
		for i, e := range from {
			if i > 0 && from[i-1].into == e.into {
				return nil, fmt.Errorf("close over %d relations: two lead from %q to %q: join "+
					"them in one pair", len(relations), e.r.From.Name, e.r.Into.Name)
			}
		}
	}
	return c, nil
}

// edge returns the direct relation from one node to another, or nil.
func (c *Closure) edge(from, into int) *edge {
	edges := c.edges[from]
	i, ok := slices.BinarySearchFunc(edges, into,
		func(e edge, into int) int { return cmp.Compare(e.into, into) })
	if !ok {
		return nil
	}
	return &edges[i]
}

// relation returns the direct relation from one node to another, or nil.
func (c *Closure) relation(from, into int) *Relation {
	if e := c.edge(from, into); e != nil {
		return e.r
	}
	return nil
}

// index returns the index of a node, or -1 if no node has that name.
func (c *Closure) index(name string) int {
	if i, ok := slices.BinarySearch(c.names, name); ok {
		return i
	}
	return -1
}

// pathsOver yields the paths from one node to another that lead over one third node.
func (c *Closure) pathsOver(from, into int) iter.Seq[path] {
	return func(yield func(path) bool) {
		for _, first := range c.edges[from] {
			if first.into == into {
				continue
			}
			second := c.relation(first.into, into)
			if second != nil && !yield(path{first.r, second}) {
				return
			}
		}
	}
}

// Related returns nil if some readings of one node can be translated to the other. If no reading
// can be translated, it returns an error that gives the reason and wraps ErrNoPath.
func (c *Closure) Related(from, into string) error {
	i, j := c.index(from), c.index(into)
	if i < 0 || j < 0 {
		return fmt.Errorf("relate %q with %q: one of them is unknown: %w", from, into, ErrNoPath)
	}
	if i == j {
		return nil
	}
	_, err := c.paths(i, j)
	return err
}

// Closed is the translation of a reading, with the paths that gave its two ends.
type Closed struct {
	Interval
	LoPath, HiPath Path
	Verdict        Verdict
}

// DisagreementError reports that the intervals of two paths between the same nodes do not overlap.
// An assumption is broken on one of the paths, or some stamps are false.
type DisagreementError struct {
	Reading uint64 // a reading of the paths' first node
	Paths   [2]Path
	Counts  [2]Interval // what each path translates Reading to, in cycles of the paths' last node
}

func (e *DisagreementError) Error() string {
	return fmt.Sprintf("reading %d of %q is %v by %v and %v by %v: an assumption is broken "+
		"between %s",
		e.Reading, e.Paths[0][0], e.Counts[0], e.Paths[0], e.Counts[1], e.Paths[1],
		strings.Join(e.Nodes(), ", "))
}

// Nodes returns the nodes of both paths, sorted.
func (e *DisagreementError) Nodes() []string {
	all := slices.Concat(e.Paths[0], e.Paths[1])
	slices.Sort(all)
	return slices.Compact(all)
}

// Translate returns an interval for the counter of the second node (into), at the moment when the
// counter of the first node (from) showed y, as Relation.Translate does. If the paths' intervals do
// not overlap, the error wraps a *DisagreementError.
func (c *Closure) Translate(from, into string, y uint64) (Closed, error) {
	closed, err := c.count(from, into, y)
	if err != nil {
		return Closed{}, fmt.Errorf("translate %d of %q to %q: %w", y, from, into, err)
	}
	n := c.nodes[c.index(into)]
	closed.Interval = n.readings(closed.Interval)
	if from == into {
		closed.Interval = n.otherCore(closed.Interval)
	}
	return closed, nil
}

// count translates the reading y of the first node. It returns the interval of the count of the
// second node at the moment when a program read y.
func (c *Closure) count(from, into string, y uint64) (Closed, error) {
	i, j := c.index(from), c.index(into)
	if i < 0 {
		return Closed{}, fmt.Errorf("node %q: %w", from, ErrNoPath)
	}
	n := c.nodes[i]
	start := n.counts(At(y))
	if from == into {
		return Closed{Interval: start, LoPath: Path{from}, HiPath: Path{from}}, nil
	}
	if j < 0 {
		return Closed{}, fmt.Errorf("node %q: %w", into, ErrNoPath)
	}
	paths, err := c.paths(i, j)
	if err != nil {
		return Closed{}, err
	}
	s, err := c.settleCount(paths, start)
	if err != nil {
		return Closed{}, err
	}
	lo, hi := s.lo[len(s.lo)-1], s.hi[len(s.hi)-1]
	closed := Closed{Interval{lo.at.Lo, hi.at.Hi}, lo.nodes(), hi.nodes(), s.verdict}
	if !closed.Valid() {
		return Closed{}, &DisagreementError{y, [2]Path{closed.LoPath, closed.HiPath},
			[2]Interval{lo.at, hi.at}}
	}
	return closed, nil
}

// toldInterval is a path, and the interval to which the path translates a reading.
type toldInterval struct {
	path
	at Interval
}

// settledPaths contains the paths on which each end of a value rests: the direct relation, or as
// many paths over third nodes as must agree. Among these, the last path is the one with the
// outermost end, which becomes the end of the value.
type settledPaths struct {
	lo, hi  []toldInterval
	verdict Verdict
}

// settleCount translates a reading along all paths. Each end of the result is the tighter one of
// two ends: that of the direct relation, and that on which as many third nodes agree as the
// settings require.
func (c *Closure) settleCount(paths []path, start Interval) (settledPaths, error) {
	var failed error
	for _, verdict := range []Verdict{Consistent, Suspect} {
		var direct, los []toldInterval
		for _, p := range paths {
			if p.verdict() != verdict {
				continue
			}
			at, err := p.count(start)
			if err != nil {
				failed = cmp.Or(failed, err)
				continue
			}
			if len(p) == 1 {
				direct = []toldInterval{{p, at}}
			} else {
				los = append(los, toldInterval{p, at})
			}
		}
		s := settledPaths{direct, direct, verdict}
		if n := c.agreeingPaths(intervals(direct), intervals(los)); len(los) >= n {
			his := slices.Clone(los)
			slices.SortStableFunc(los, func(x, y toldInterval) int {
				return cmp.Compare(y.at.Lo,
					x.at.Lo)
			})
			slices.SortStableFunc(his, func(x, y toldInterval) int {
				return cmp.Compare(x.at.Hi,
					y.at.Hi)
			})
			if direct == nil || los[n-1].at.Lo > direct[0].at.Lo {
				s.lo = los[:n]
			}
			if direct == nil || his[n-1].at.Hi < direct[0].at.Hi {
				s.hi = his[:n]
			}
		}
		if s.lo != nil {
			return s, nil
		}
	}
	return settledPaths{}, cmp.Or(failed,
		fmt.Errorf("with third nodes %v, too few relations are consistent or agree: %w", c.third,
			ErrNoPath))
}
