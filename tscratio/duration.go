package tscratio

import (
	"fmt"
	"math"
)

// Between returns the duration from an event at reading x of Into's counter to an event at reading
// y of From's counter, in cycles of Into. The interval includes quantum and core slack of both
// nodes.
func (r *Relation) Between(x, y uint64) (Elapsed, error) {
	at, err := r.Translate(y)
	if err != nil {
		return Elapsed{}, err
	}
	return at.Minus(At(x))
}

// SameNode returns the duration between two events that both have readings of From's counter, in
// cycles of Into.
//
// There are two methods: to multiply the difference by the rate, and to translate both readings.
// The first gives the narrower interval for a short duration, the second for a long one. The result
// is the intersection of both intervals.
func (r *Relation) SameNode(first, second uint64) (Elapsed, error) {
	for _, y := range []uint64{first, second} {
		if !r.limits.Contains(y) {
			return Elapsed{}, r.beyond(y)
		}
	}
	d, err := r.From.ownCycles(first, second)
	if err != nil {
		return Elapsed{}, err
	}
	byRate, errRate := r.rates().scale(first, d)
	from, errFrom := r.count(r.From.counts(At(first)))
	to, errTo := r.count(r.From.counts(At(second)))
	if errFrom != nil || errTo != nil {
		return byRate, errRate // a reading with the quantum added lies outside of the limits
	}
	byEnds, err := to.Minus(from)
	if err != nil || errRate != nil {
		return byEnds, err // the rate may be known at both ends, but not between them
	}
	both := byRate.Intersect(byEnds)
	if !both.Valid() {
		return Elapsed{}, fmt.Errorf("duration on %q from %d to %d is %v by rate and %v by its "+
			"ends: %w", r.From.Name, first, second, byRate, byEnds, ErrAssumption)
	}
	return both, nil
}

// error_cycles is the largest error of a duration between two readings of the node. The readings
// may come from two cores, and each may come from anywhere within a quantum.
func (n Node) error_cycles() int64 { return int64(n.Quantum_cycles + n.CoreSlack_cycles) }

// ownCycles returns the time between events at two readings of the node, in the node's own cycles.
func (n Node) ownCycles(first, second uint64) (Elapsed, error) {
	d, ok := difference(second, first)
	e := n.error_cycles()
	if most := math.MaxInt64 - e; !ok || d > most || d < -most {
		return Elapsed{}, fmt.Errorf("measure the time from %d to %d of %q: %w",
			first, second, n.Name, ErrOutOfRange)
	}
	return Elapsed{d - e, d + e}, nil
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

	// SameNode: both events are on one node other than the reference, and the rate between the two
	// nodes scales the difference. This is the paper's Scenario 1.
	SameNode

	// Direct: the events are on two nodes. The relation of the two nodes translates the reading of
	// one node into cycles of the other node. If that other node is not the reference, a rate
	// converts the difference of the readings into the reference's cycles. These are the paper's
	// Scenarios 2 and 3.
	Direct

	// ThroughReference: the events are on two nodes, and each event is translated to the reference
	// on its own. This is the paper's baseline. The duration then rests on a single third node, the
	// reference. Therefore only ThirdAny allows this.
	ThroughReference

	// ByClosure: the duration was found like Direct or ThroughReference, but the translations also
	// use third nodes.
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
	Elapsed
	Scenario Scenario // the narrowest method; Elapsed is the intersection of all methods
	Verdict  Verdict
}

// Duration returns the duration from one event to another in cycles of the reference node. The
// interval includes quantum and core slack of both events' nodes.
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
			d, err := c.nodes[c.index(reference)].ownCycles(first.Reading, second.Reading)
			return Duration{d, Trivial, Consistent}, err
		}
		if r, err := c.direct(first.Node, reference); err == nil {
			d, err := r.SameNode(first.Reading, second.Reading)
			s.offer(d, SameNode, r.Verdict, err)
		} else if r, err := c.rates(first.Node, reference); err == nil {
			d, err := r.from.ownCycles(first.Reading, second.Reading)
			if err == nil {
				d, err = r.scale(first.Reading, d)
			}
			s.offer(d, SameNode, r.verdict, err)
		}
		s.offer(c.durationOn(reference, reference, first, second, ByClosure))
		return s.result()
	}
	for _, on := range []string{first.Node, second.Node} {
		s.offer(c.durationOn(on, reference, first, second, Direct))
		s.offer(c.durationOn(on, reference, first, second, ByClosure))
	}
	if c.overReference(reference, first.Node, second.Node) {
		s.offer(c.durationOn(reference, reference, first, second, ThroughReference))
		s.offer(c.durationOn(reference, reference, first, second, ByClosure))
	}
	return s.result()
}

// overReference reports whether events of two nodes may both be translated to the reference. The
// reference is then a third node, so only ThirdAny allows it.
func (c *Closure) overReference(reference, first, second string) bool {
	return c.third == ThirdAny && reference != first && reference != second
}

// durationOn finds the duration by translating both events to the counter of one node, and scaling
// the difference to the reference's cycles.
func (c *Closure) durationOn(
	node, reference string, first, second Event, by Scenario,
) (Elapsed, Scenario, Verdict, error) {
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
		return Elapsed{}, by, verdict, err
	}
	y, err := place(second)
	if err != nil {
		return Elapsed{}, by, verdict, err
	}
	d, err := y.Minus(x)
	if err != nil || node == reference {
		return d, by, verdict, err
	}
	r, err := c.rates(node, reference)
	if err != nil {
		return Elapsed{}, by, verdict, err
	}
	verdict = max(verdict, r.verdict)
	at := first.Reading
	if first.Node != node { // scale backwards from the second event, which is on node
		at = second.Reading
		d, err = r.scale(at, Elapsed{-d.Hi, -d.Lo})
		return Elapsed{-d.Hi, -d.Lo}, by, verdict, err
	}
	d, err = r.scale(at, d)
	return d, by, verdict, err
}

func (c *Closure) direct(from, into string) (*Relation, error) {
	if r := c.relation(c.index(from), c.index(into)); r != nil {
		return r, nil
	}
	return nil, fmt.Errorf("directly from %q to %q: %w", from, into, ErrNoPath)
}
