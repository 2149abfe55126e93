package tscratio

import (
	"cmp"
	"errors"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strings"
)

// ErrNoPath is returned when no chain of relations leads from one node to another.
var ErrNoPath = errors.New("no relation")

// Closure relates the nodes of a fleet over every chain of relations between them: φ_AC ∘ φ_CB bounds φ_AB as
// well as a direct relation does, and what all allow is tighter than each. It is immutable and any number
// of goroutines may use it.
//
// A chain is as true as what the nodes on it reported. One that reported other readings than its counter's can narrow what
// is known of two others to something false, unseen while the lie is smaller than their own bound: leave out relations
// of nodes that are not trusted.
//
// A consistent chain is one whose relations all are. Others are used only where there is none, and what
// comes of them is marked suspect.
type Closure struct {
	nodes     map[string]Node
	names     []string // sorted
	relations map[link]*Relation
	next      map[string][]*Relation // that lead away from a node
	legs      int
}

type link struct{ from, into string }

// path is a chain of relations. The first one's Into is the second one's From. A closure finds its paths whenever it is asked: they are as
// many as the cube of the nodes, a hundred times what the relations take in a fleet of a hundred.
type path []*Relation

func (p path) verdict() Verdict {
	for _, r := range p {
		if r.Verdict == Suspect {
			return Suspect
		}
	}
	return Consistent
}

func (p path) nodes() Path {
	names := Path{p[0].From.Name}
	for _, r := range p {
		names = append(names, r.Into.Name)
	}
	return names
}

// count carries an interval of the first node's count along the path.
func (p path) count(c Interval) (Interval, error) {
	for _, r := range p {
		var err error
		if c, err = r.count(c); err != nil {
			return Interval{}, err
		}
	}
	return c, nil
}

// Path names the nodes that a value went over, from its own to the one in whose cycles it is given.
type Path []string

func (p Path) String() string { return strings.Join(p, " → ") }

// NewClosure returns the closure over chains of at most so many relations; 2 is the direct relation and
// every third node. A relation leads one way: give both directions of every pair.
func NewClosure(relations []*Relation, legs int) (*Closure, error) {
	c := &Closure{nodes: map[string]Node{}, relations: map[link]*Relation{}, next: map[string][]*Relation{}, legs: legs}
	for _, r := range relations {
		for _, n := range []Node{r.From, r.Into} {
			if known, ok := c.nodes[n.Name]; ok && known != n {
				if known.Epoch != n.Epoch {
					return nil, fmt.Errorf("close over %d relations: node %q has epochs %q and %q: %w", len(relations), n.Name, known.Epoch, n.Epoch, ErrEpoch)
				}
				return nil, fmt.Errorf("close over %d relations: node %q is described as %+v and as %+v: %w", len(relations), n.Name, known, n, ErrAssumption)
			}
			c.nodes[n.Name] = n
		}
		l := link{r.From.Name, r.Into.Name}
		if c.relations[l] != nil {
			return nil, fmt.Errorf("close over %d relations: two lead from %q to %q: join them in one pair", len(relations), r.From.Name, r.Into.Name)
		}
		c.relations[l] = r
		c.next[l.from] = append(c.next[l.from], r)
	}
	c.names = slices.Sorted(maps.Keys(c.nodes))
	return c, nil
}

// paths yields every path from one node to another, the short ones first. A path visits no node twice, and is good until the next one:
// clone it to keep it.
func (c *Closure) paths(from, into string) iter.Seq[path] {
	return func(yield func(path) bool) {
		for legs := range c.legs {
			if !c.explore(make(path, 0, legs+1), from, into, legs+1, yield) {
				return
			}
		}
	}
}

// explore yields the paths of so many relations more that go on from p, which has come to a node.
func (c *Closure) explore(p path, at, into string, legs int, yield func(path) bool) bool {
	if legs == 1 {
		last := c.relations[link{at, into}]
		return last == nil || yield(append(p, last))
	}
	for _, r := range c.next[at] {
		visited := func(earlier *Relation) bool { return earlier.From.Name == r.Into.Name }
		if r.Into.Name == into || slices.ContainsFunc(p, visited) {
			continue
		}
		if !c.explore(append(p, r), r.Into.Name, into, legs-1, yield) {
			return false
		}
	}
	return true
}

// Nodes returns the names of the nodes, sorted.
func (c *Closure) Nodes() []string { return slices.Clone(c.names) }

// Closed is a translated reading and the paths that gave its ends.
type Closed struct {
	Interval
	LoPath, HiPath Path
	Verdict        Verdict
}

// DisagreementError says that two paths between nodes leave no common value: an assumption is broken, or
// stamps lie, on one of them.
type DisagreementError struct {
	Reading uint64 // of the paths' first node
	Paths   [2]Path
	Counts  [2]Interval // that each path gives, in cycles of their last node
}

func (e *DisagreementError) Error() string {
	return fmt.Sprintf("reading %d of %q is %v by %v and %v by %v: an assumption is broken between %s",
		e.Reading, e.Paths[0][0], e.Counts[0], e.Paths[0], e.Counts[1], e.Paths[1], strings.Join(e.Nodes(), ", "))
}

// Nodes returns the nodes of both paths, sorted.
func (e *DisagreementError) Nodes() []string {
	all := slices.Concat(e.Paths[0], e.Paths[1])
	slices.Sort(all)
	return slices.Compact(all)
}

// Translate returns in which interval into's counter stood when from's showed y, as Relation.Translate does.
// An empty intersection is a *DisagreementError.
func (c *Closure) Translate(from, into string, y uint64) (Closed, error) {
	closed, err := c.count(from, into, y)
	if err != nil {
		return Closed{}, fmt.Errorf("translate %d of %q to %q: %w", y, from, into, err)
	}
	closed.Interval = c.nodes[into].readings(closed.Interval)
	return closed, nil
}

// count returns into's count when a program read y on from.
func (c *Closure) count(from, into string, y uint64) (Closed, error) {
	n, ok := c.nodes[from]
	if !ok {
		return Closed{}, fmt.Errorf("node %q: %w", from, ErrNoPath)
	}
	start := n.counts(At(y))
	if from == into {
		return Closed{Interval: start, LoPath: Path{from}, HiPath: Path{from}}, nil
	}
	var failed error = ErrNoPath
	for _, verdict := range []Verdict{Consistent, Suspect} {
		var lo, hi path
		var closed Interval
		for p := range c.paths(from, into) {
			if p.verdict() != verdict {
				continue
			}
			i, err := p.count(start)
			if err != nil {
				failed = err
				continue
			}
			if lo == nil {
				lo, closed = slices.Clone(p), i
				hi = lo
				continue
			}
			if i.Lo > closed.Hi {
				return Closed{}, disagreement(y, start, hi, p)
			}
			if i.Hi < closed.Lo {
				return Closed{}, disagreement(y, start, lo, p)
			}
			if i.Lo > closed.Lo {
				lo, closed.Lo = slices.Clone(p), i.Lo
			}
			if i.Hi < closed.Hi {
				hi, closed.Hi = slices.Clone(p), i.Hi
			}
		}
		if lo != nil {
			return Closed{closed, lo.nodes(), hi.nodes(), verdict}, nil
		}
	}
	return Closed{}, failed
}

func disagreement(y uint64, start Interval, p, q path) *DisagreementError {
	e := &DisagreementError{Reading: y, Paths: [2]Path{p.nodes(), q.nodes()}}
	e.Counts[0], _ = p.count(start)
	e.Counts[1], _ = q.count(start)
	return e
}

// Audit holds every third node against every relation.
type Audit struct {
	Disagreements []*DisagreementError // at most one a triangle

	// Accused are the nodes that all disagreements have in common. With one disagreement these are all of its
	// nodes; with more, the one that is wrong remains.
	Accused []string
}

// Audit compares, for every three nodes, the direct relation with the way over the third, at so many readings
// spread evenly over what the direct relation translates.
func (c *Closure) Audit(readings int) Audit {
	var a Audit
	for _, l := range slices.SortedFunc(maps.Keys(c.relations), func(x, y link) int {
		return cmp.Or(cmp.Compare(x.from, y.from), cmp.Compare(x.into, y.into))
	}) {
		direct := path{c.relations[l]}
		limits := direct[0].limits
		for p := range c.paths(l.from, l.into) {
			if len(p) != 2 {
				continue
			}
			for i := range readings {
				y := limits.Lo + limits.Width()/uint64(readings+1)*uint64(i+1)
				x, errX := direct.count(At(y))
				z, errZ := p.count(At(y))
				if errX == nil && errZ == nil && !x.Intersect(z).Valid() {
					a.Disagreements = append(a.Disagreements, disagreement(y, At(y), direct, p))
					break
				}
			}
		}
	}
	for i, d := range a.Disagreements {
		if i == 0 {
			a.Accused = d.Nodes()
			continue
		}
		nodes := d.Nodes()
		a.Accused = slices.DeleteFunc(a.Accused, func(n string) bool { return !slices.Contains(nodes, n) })
	}
	return a
}

// Event is a reading of a node's counter.
type Event struct {
	Node    string
	Reading uint64
}

// Scenario says by which way a duration was found.
type Scenario uint8

const (
	// Trivial: both events on the reference node.
	Trivial Scenario = iota + 1

	// SameNode: both on one other node; by that node's rate. The paper's Scenario 1.
	SameNode

	// Direct: on two nodes; both put on one of the two counters by the relation of that pair, then, unless that
	// counter is the reference, scaled to it by a rate. The paper's Scenarios 2 and 3.
	Direct

	// ThroughReference: on two nodes; each translated to the reference on its own. The paper's baseline.
	ThroughReference

	// ByClosure: as Direct or ThroughReference, over all paths.
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
	Scenario Scenario // the one that alone is tightest; Span is what all of them allow
	Verdict  Verdict
}

// Duration returns the duration from one event to another in cycles of the reference node, quantum and core
// slack of either node included.
func (c *Closure) Duration(reference string, first, second Event) (Duration, error) {
	d, err := c.duration(reference, first, second)
	if err != nil {
		return Duration{}, fmt.Errorf("duration from %d of %q to %d of %q in cycles of %q: %w", first.Reading, first.Node, second.Reading, second.Node, reference, err)
	}
	return d, nil
}

func (c *Closure) duration(reference string, first, second Event) (Duration, error) {
	for _, n := range []string{reference, first.Node, second.Node} {
		if _, ok := c.nodes[n]; !ok {
			return Duration{}, fmt.Errorf("node %q: %w", n, ErrNoPath)
		}
	}
	var s search
	if first.Node == second.Node {
		if first.Node == reference {
			n := c.nodes[reference]
			d, ok := difference(second.Reading, first.Reading)
			if !ok {
				return Duration{}, ErrOutOfRange
			}
			e := int64(n.QuantumCycles + n.CoreSlackCycles)
			return Duration{Span{d - e, d + e}, Trivial, Consistent}, nil
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
	if reference != first.Node && reference != second.Node {
		s.offer(c.on(reference, reference, first, second, ThroughReference))
		s.offer(c.on(reference, reference, first, second, ByClosure))
	}
	return s.result()
}

// on finds the duration by putting both events on one node's counter and scaling it to the reference.
func (c *Closure) on(node, reference string, first, second Event, by Scenario) (Span, Scenario, Verdict, error) {
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
	if r := c.relations[link{from, into}]; r != nil {
		return r, nil
	}
	return nil, fmt.Errorf("directly from %q to %q: %w", from, into, ErrNoPath)
}

// search keeps what all ways to a duration allow: the consistent ones, or if there are none the others.
type search struct {
	found     [2]bool // by verdict
	all, best [2]Duration
	err       error
}

func (s *search) offer(d Span, by Scenario, v Verdict, err error) {
	if err != nil {
		// A disagreement must not be lost behind a way that merely was not there.
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
			return Duration{}, fmt.Errorf("ways to it leave nothing in common (the tightest, %v, gives %v): %w", d.Scenario, s.best[v].Span, ErrAssumption)
		}
		return d, nil
	}
	return Duration{}, s.err
}
