package watch

import (
	"cmp"
	"math"
	"slices"
	"time"

	"github.com/cloudprofiler/cloudprofiler/coordinator"
	"github.com/cloudprofiler/cloudprofiler/tscratio"
)

// clocks has the relations between the counters of those nodes whose events the View has to
// compare.
type clocks struct {
	wanted map[[2]string]bool // the key has the names of two nodes, sorted
	isNew  bool               // true if the next request must ask for the wanted pairs at once
	asked  time.Time

	version   int               // increases whenever the relations or the reference change
	closure   *tscratio.Closure // nil: there is no relation
	reference string
	problems  map[string]bool // the keys say why some nodes are not related
	views     map[string]*tscratio.View
	ways      map[[2]string]*tscratio.Ways
}

func newClocks() clocks { return clocks{wanted: map[[2]string]bool{}} }

// wantRelation notes that the relation of two nodes is needed, so that a later request asks for it.
func (c *clocks) wantRelation(a, b string) {
	if a == b {
		return
	}
	if a > b {
		a, b = b, a
	}
	if key := [2]string{a, b}; !c.wanted[key] {
		c.wanted[key], c.isNew = true, true
	}
}

// wantedPairs returns the wanted pairs of nodes, those with the reference first. It returns at most
// as many pairs as one request may contain.
func (c *clocks) wantedPairs(nodes map[string]*node) (all [][2]string) {
	for key := range c.wanted {
		if nodes[key[0]] == nil || nodes[key[1]] == nil {
			delete(c.wanted, key)
			continue
		}
		all = append(all, key)
	}
	slices.SortFunc(all, func(x, y [2]string) int {
		other := func(key [2]string) int {
			if key[0] == c.reference || key[1] == c.reference {
				return 0
			}
			return 1
		}
		return cmp.Or(cmp.Compare(other(x), other(y)), slices.Compare(x[:], y[:]))
	})
	return all[:min(len(all), coordinator.MaxWatchedPairs)]
}

// add takes the newest measurements from an answer, if it has any.
func (c *clocks) add(nodes map[string]*node, a *coordinator.WatchAnswer) {
	if len(a.Pairs) == 0 {
		return
	}
	c.closure, c.problems = nil, map[string]bool{}
	var all []*tscratio.Relation
	for _, encoded := range a.Pairs {
		p, err := tscratio.DecodePair(encoded)
		if err != nil {
			c.problem(err)
			continue
		}
		if m, n := nodes[p.A.Name], nodes[p.B.Name]; m == nil || n == nil ||
			p.CheckEpochs(m.Epoch, n.Epoch) != nil {
			continue
		}
		p.Prune() // a pruned pair gives the same answers in a fraction of the time
		for _, side := range []tscratio.Side{tscratio.SideA, tscratio.SideB} {
			r, err := p.Relate(side, p.Declared.Wander)
			if err != nil {
				c.problem(err)
				continue
			}
			all = append(all, r)
		}
	}
	if len(all) > 0 {
		var err error
		if c.closure, err = tscratio.NewClosure(all, a.ThirdNodes); err != nil {
			c.problem(err)
		}
	}
	c.forgetDerived()
}

func (c *clocks) problem(err error) { c.problems[err.Error()] = true }

// dropRelations drops all relations. The next request asks for them again.
func (c *clocks) dropRelations() {
	c.closure, c.isNew = nil, true
	c.forgetDerived()
}

// forgetDerived drops everything that was derived from the relations and the reference.
func (c *clocks) forgetDerived() {
	c.version++
	c.views, c.ways = map[string]*tscratio.View{}, map[[2]string]*tscratio.Ways{}
}

// choose returns the reference, which must send Samples. The parameter wanted is the name of the
// run's reference: if that node sends and is not virtual, choose returns it. If not, choose returns
// the present reference if it still sends, and otherwise the first sender that is not virtual.
func (c *clocks) choose(senders []*node, wanted string) (reference *node) {
	for _, n := range senders {
		if n.Name == c.reference {
			reference = n
		}
	}
	for _, n := range senders {
		if !n.Virtual && (n.Name == wanted || reference == nil) {
			reference = n
		}
	}
	if reference == nil || reference.Name == c.reference {
		return reference
	}
	c.reference = reference.Name
	c.forgetDerived()
	return reference
}

// placeReading translates a reading of a node's counter into an interval. At the moment of the
// reading, the reference's counter showed a value in this interval. If the relation of the two
// nodes is unknown, ok is false.
func (c *clocks) placeReading(n *node, reading uint64) (at tscratio.Interval, ok bool) {
	if n.Name == c.reference {
		return tscratio.At(reading), true
	}
	v := c.views[n.Name]
	if v == nil && c.closure != nil {
		v, _ = c.closure.View(n.Name, c.reference)
		c.views[n.Name] = v
	}
	if v == nil {
		return at, false
	}
	if lo, hi := v.Limits(); reading < lo || reading > hi {
		return at, false
	}
	at, _, err := v.Translate(reading)
	return at, err == nil
}

// durationBetween returns the duration from one event to another, in cycles of the reference.
func (c *clocks) durationBetween(reference *node, x, y event) (d tscratio.Duration, ok bool) {
	if x.node == reference && y.node == reference {
		passed := int64(y.reading - x.reading)
		e := int64(reference.Quantum_cycles + reference.CoreSlack_cycles)
		d.Lo, d.Hi, d.Verdict = passed-e, passed+e, tscratio.Consistent
	} else {
		key := [2]string{x.node.Name, y.node.Name}
		w := c.ways[key]
		if w == nil && c.closure != nil {
			w, _ = c.closure.Ways(c.reference, key[0], key[1])
			c.ways[key] = w
		}
		if w == nil {
			return d, false
		}
		var err error
		if d, err = w.Duration(x.reading, y.reading); err != nil {
			return d, false
		}
	}
	d.Lo -= inReference(reference, x) + inReference(reference, y)
	d.Hi += inReference(reference, x) + inReference(reference, y)
	return d, -mostCycles <= d.Lo && d.Lo <= d.Hi && d.Hi <= mostCycles
}

// inReference returns by how many cycles of the reference the stamp of an event may be wrong. The
// result need not be exact, only large enough.
func inReference(reference *node, e event) int64 {
	if e.slack == 0 {
		return 0
	}
	ratio := float64(reference.Nominal_hz) / float64(e.node.Nominal_hz)
	return int64(math.Ceil(float64(e.slack)*ratio*1.01)) + 1
}

// mostCycles is longer than any duration that a picture shows, and far too short for an overflow.
const mostCycles = 1 << 60
