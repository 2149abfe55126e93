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

// ThirdNodes says how far other nodes may narrow what is known about two. A value that goes over a
// third node is only as true as what that node reported. A lie smaller than the bounds along the
// path cannot be seen.
type ThirdNodes uint8

const (
	// ThirdAgreed narrows each end as far as two third nodes agree on it. If at most one node lies,
	// in any manner, it moves only its own relations. This is the default.
	ThirdAgreed ThirdNodes = iota

	// ThirdAny narrows as far as any third node does. Nothing is tighter, and everything rests on
	// every node.
	ThirdAny

	// ThirdNone never narrows. However many nodes lie, each moves only its own relations.
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

// needed returns how many third nodes must agree.
func (t ThirdNodes) needed() int {
	switch t {
	case ThirdAny:
		return 1
	case ThirdAgreed:
		return 2
	}
	return math.MaxInt
}

// Closure relates the nodes of a fleet over every third node. φ_AC ∘ φ_CB bounds φ_AB as a direct
// relation does, and the intersection of all such bounds is tighter than each. ThirdNodes says
// which third nodes are believed. A Closure is immutable; any number of goroutines may use it.
//
// A path is consistent if all of its relations are. Other paths are used only where consistent ones
// do not suffice, and their results are marked suspect.
type Closure struct {
	third     ThirdNodes
	names     []string // sorted
	nodes     []Node   // by name
	relations [][]*Relation
}

// path is the direct relation of two nodes, or one into a third node and one from there.
type path struct{ first, second *Relation }

func (p path) verdict() Verdict {
	if p.second != nil && p.second.Verdict == Suspect {
		return Suspect
	}
	return p.first.Verdict
}

func (p path) nodes() Path {
	names := Path{p.first.From.Name, p.first.Into.Name}
	if p.second != nil {
		names = append(names, p.second.Into.Name)
	}
	return names
}

// count carries an interval of the first node's count along the path.
func (p path) count(c Interval) (Interval, error) {
	c, err := p.first.count(c)
	if err != nil || p.second == nil {
		return c, err
	}
	return p.second.count(c)
}

// Path names the nodes that a value passed through, from its own node to the one in whose cycles it
// is given.
type Path []string

func (p Path) String() string { return strings.Join(p, " → ") }

// NewClosure returns the closure of some relations. A relation has one direction: give both
// directions of every pair.
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
		c.relations = append(c.relations, make([]*Relation, len(c.names)))
	}
	for _, r := range relations {
		at := &c.relations[c.index(r.From.Name)][c.index(r.Into.Name)]
		if *at != nil {
			return nil, fmt.Errorf("close over %d relations: two lead from %q to %q: join them "+
				"in one pair", len(relations), r.From.Name, r.Into.Name)
		}
		*at = r
	}
	return c, nil
}

// index returns the index of a node, or -1 if no node has that name.
func (c *Closure) index(name string) int {
	if i, ok := slices.BinarySearch(c.names, name); ok {
		return i
	}
	return -1
}

// over yields the paths between two nodes over a third.
func (c *Closure) over(from, into int) iter.Seq[path] {
	return func(yield func(path) bool) {
		for via, first := range c.relations[from] {
			if first == nil || via == into {
				continue
			}
			if second := c.relations[via][into]; second != nil && !yield(path{first, second}) {
				return
			}
		}
	}
}

// paths returns all usable paths from one node to another, the direct relation first. The error
// says why there are not enough.
func (c *Closure) paths(from, into int) ([]path, error) {
	var ps []path
	direct := c.relations[from][into]
	if direct != nil {
		ps = append(ps, path{first: direct})
	}
	thirds := slices.Collect(c.over(from, into))
	if n := c.third.needed(); len(thirds) >= n {
		ps = append(ps, thirds...)
	} else if direct == nil && len(thirds) > 0 {
		return nil, fmt.Errorf("%q and %q were not measured with each other, and %d third "+
			"nodes are too few to relate them with third nodes %v: %w",
			c.names[from], c.names[into], len(thirds), c.third, ErrNoPath)
	}
	if len(ps) == 0 {
		return nil, ErrNoPath
	}
	return ps, nil
}

// Related returns nil if some readings of one node can be translated to the other. Otherwise it
// returns an error that says why not and wraps ErrNoPath.
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

// Closed is a translated reading and the paths that gave its ends.
type Closed struct {
	Interval
	LoPath, HiPath Path
	Verdict        Verdict
}

// DisagreementError says that two paths between the same nodes leave no common value. An assumption
// is broken on one of them, or stamps lie.
type DisagreementError struct {
	Reading uint64 // of the paths' first node
	Paths   [2]Path
	Counts  [2]Interval // that each path gives, in cycles of their last node
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

// Translate returns the interval in which into's counter stood when from's showed y, as
// Relation.Translate does. An empty intersection is a *DisagreementError.
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

// count returns into's count at the moment when a program read y on from.
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
	s, err := c.settle(paths, start)
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

// told is a path and the interval that it gives.
type told struct {
	path
	at Interval
}

// settled holds what each end of a value rests on: the direct relation, or as many third nodes as
// must agree. The last of these third nodes is the loosest and gives the end.
type settled struct {
	lo, hi  []told
	verdict Verdict
}

// settle carries a count along all paths. For each end it chooses the tightest basis that
// ThirdNodes permits.
func (c *Closure) settle(paths []path, start Interval) (settled, error) {
	var failed error
	for _, verdict := range []Verdict{Consistent, Suspect} {
		var direct, los []told
		for _, p := range paths {
			if p.verdict() != verdict {
				continue
			}
			at, err := p.count(start)
			if err != nil {
				failed = cmp.Or(failed, err)
				continue
			}
			if p.second == nil {
				direct = []told{{p, at}}
			} else {
				los = append(los, told{p, at})
			}
		}
		s := settled{direct, direct, verdict}
		if n := c.third.needed(); len(los) >= n {
			his := slices.Clone(los)
			slices.SortStableFunc(los, func(x, y told) int { return cmp.Compare(y.at.Lo, x.at.Lo) })
			slices.SortStableFunc(his, func(x, y told) int { return cmp.Compare(x.at.Hi, y.at.Hi) })
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
	return settled{}, cmp.Or(failed,
		fmt.Errorf("with third nodes %v, too few relations are consistent: %w", c.third, ErrNoPath))
}

// Event is a reading of a node's counter.
type Event struct {
	Node    string
	Reading uint64
}

// Scenario says how a duration was found.
type Scenario uint8

const (
	// Trivial: both events are on the reference node.
	Trivial Scenario = iota + 1

	// SameNode: both events are on one other node, and its rate scales the difference. The paper's
	// Scenario 1.
	SameNode

	// Direct: the events are on two nodes. The relation of that pair puts both on one of the two
	// counters. Unless that counter is the reference, a rate then scales the difference to it. The
	// paper's Scenarios 2 and 3.
	Direct

	// ThroughReference: the events are on two nodes, and each is translated to the reference on its
	// own. The paper's baseline. The reference is then a third node on whose word alone the
	// duration rests, so only ThirdAny allows this.
	ThroughReference

	// ByClosure: as Direct or ThroughReference, but over third nodes too.
	ByClosure
)

func (s Scenario) String() string {
	switch s {
	case Trivial:
		return "trivial"
	case SameNode:
		return "same node"
	case Direct:
		return "direct"
	case ThroughReference:
		return "through reference"
	case ByClosure:
		return "by closure"
	}
	return fmt.Sprintf("scenario %d", uint8(s))
}

// Duration is a duration in reference cycles.
type Duration struct {
	Span
	Scenario Scenario // the tightest one; Span is the intersection of all
	Verdict  Verdict
}

// Duration returns the duration from one event to another in cycles of the reference node. It
// includes quantum and core slack of both events' nodes.
func (c *Closure) Duration(reference string, first, second Event) (Duration, error) {
	d, err := c.duration(reference, first, second)
	if err != nil {
		return Duration{}, fmt.Errorf("duration from %d of %q to %d of %q in cycles of %q: %w",
			first.Reading, first.Node, second.Reading, second.Node, reference, err)
	}
	return d, nil
}

func (c *Closure) duration(reference string, first, second Event) (Duration, error) {
	for _, n := range []string{reference, first.Node, second.Node} {
		if c.index(n) < 0 {
			return Duration{}, fmt.Errorf("node %q: %w", n, ErrNoPath)
		}
	}
	var s search
	if first.Node == second.Node {
		if first.Node == reference {
			d, err := c.nodes[c.index(reference)].lasted(first.Reading, second.Reading)
			return Duration{d, Trivial, Consistent}, err
		}
		if r, err := c.direct(first.Node, reference); err == nil {
			d, err := r.SameNode(first.Reading, second.Reading)
			s.offer(d, SameNode, r.Verdict, err)
		}
		s.offer(c.on(reference, reference, first, second, ByClosure))
		return s.result()
	}
	for _, on := range []string{first.Node, second.Node} {
		s.offer(c.on(on, reference, first, second, Direct))
		s.offer(c.on(on, reference, first, second, ByClosure))
	}
	if c.overReference(reference, first.Node, second.Node) {
		s.offer(c.on(reference, reference, first, second, ThroughReference))
		s.offer(c.on(reference, reference, first, second, ByClosure))
	}
	return s.result()
}

// overReference reports whether events of two nodes may both be translated to the reference, which
// then is a third node like others.
func (c *Closure) overReference(reference, first, second string) bool {
	return c.third == ThirdAny && reference != first && reference != second
}

// on finds the duration by putting both events on one node's counter and scaling the difference to
// the reference.
func (c *Closure) on(
	node, reference string, first, second Event, by Scenario,
) (Span, Scenario, Verdict, error) {
	var verdict Verdict
	place := func(e Event) (Interval, error) {
		if by == ByClosure || e.Node == node {
			at, err := c.count(e.Node, node, e.Reading)
			verdict = max(verdict, at.Verdict)
			return at.Interval, err
		}
		r, err := c.direct(e.Node, node)
		if err != nil {
			return Interval{}, err
		}
		verdict = max(verdict, r.Verdict)
		return r.count(r.From.counts(At(e.Reading)))
	}
	x, err := place(first)
	if err != nil {
		return Span{}, by, verdict, err
	}
	y, err := place(second)
	if err != nil {
		return Span{}, by, verdict, err
	}
	d, err := y.Minus(x)
	if err != nil || node == reference {
		return d, by, verdict, err
	}
	r, err := c.direct(node, reference)
	if err != nil {
		return Span{}, by, verdict, err
	}
	verdict = max(verdict, r.Verdict)
	at := first.Reading
	if first.Node != node { // count backwards from the second
		at = second.Reading
		d, err = r.scale(at, Span{-d.Hi, -d.Lo})
		return Span{-d.Hi, -d.Lo}, by, verdict, err
	}
	d, err = r.scale(at, d)
	return d, by, verdict, err
}

func (c *Closure) direct(from, into string) (*Relation, error) {
	if r := c.relations[c.index(from)][c.index(into)]; r != nil {
		return r, nil
	}
	return nil, fmt.Errorf("directly from %q to %q: %w", from, into, ErrNoPath)
}

// search intersects all durations that were found: the consistent ones or, if there are none, the
// suspect ones.
type search struct {
	found     [2]bool // by verdict
	all, best [2]Duration
	err       error
}

func (s *search) offer(d Span, by Scenario, v Verdict, err error) {
	if err != nil {
		// Keep a disagreement even if another method failed for want of a relation.
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
	s.all[v].Span = s.all[v].Span.Intersect(d)
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
				"gives %v): %w", d.Scenario, s.best[v].Span, ErrAssumption)
		}
		return d, nil
	}
	return Duration{}, s.err
}
