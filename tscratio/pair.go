package tscratio

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"math/bits"
	"slices"
	"time"
	"unicode/utf8"
)

var (
	// ErrAssumption is returned for an assumption or a description of a node that cannot be used.
	ErrAssumption = errors.New("unusable assumption")

	// ErrWanderAboveMax is returned when a relation is asked for more wander than the constraints
	// were kept for, or turns out to need more.
	ErrWanderAboveMax = errors.New("wander above w_max")

	// ErrEpoch is returned when two things that must belong to one epoch of a node do not.
	ErrEpoch = errors.New("another epoch")
)

// Node describes one counter.
type Node struct {
	Name string

	// Epoch names the span in which the counter ran unbroken. Readings of different epochs have
	// nothing to do with each other.
	Epoch string

	// Nominal_hz converts the length of a window into cycles of this counter. It need not be
	// accurate: no bound is computed from it.
	Nominal_hz uint64

	// Quantum_cycles is the step q in which the counter moves: a reading c means a count in [c, c +
	// q]. A counter that moves in single cycles has a quantum of 1, so even its readings are not
	// exact.
	Quantum_cycles uint64

	// CoreSlack_cycles is the largest difference between readings taken on different cores at one
	// moment. 0 is correct only if all readings of the node come from one core.
	CoreSlack_cycles uint64
}

// Assumptions are what a relation rests on, in addition to quantum, core slack and unbroken epochs.
type Assumptions struct {
	// Wander is how far the rate may move from its mean within Window to either side of any
	// reading.
	Wander Wander
	Window time.Duration

	// ExtrapolationLimit is the longest time before the first constraint, and after the last one,
	// for which readings are translated.
	ExtrapolationLimit time.Duration

	// MaxWander is the largest wander for which Prune keeps every constraint that matters. The pair
	// is never evaluated for more.
	MaxWander Wander
}

// DefaultAssumptions returns a wander of 1 ppm over ±10 s, an extrapolation limit of 60 s and a
// largest wander of 16 ppm.
func DefaultAssumptions() Assumptions {
	return Assumptions{
		Wander:             1 * PPM,
		Window:             10 * time.Second,
		ExtrapolationLimit: 60 * time.Second,
		MaxWander:          16 * PPM,
	}
}

// Side is one of a pair's two nodes.
type Side uint8

const (
	SideA Side = iota
	SideB
)

// Pair contains everything that is proven about two counters: constraints, and the assumptions
// under which they were gathered. Relate evaluates it. Only one goroutine at a time may use a Pair.
type Pair struct {
	A, B     Node
	Declared Assumptions

	trains []train // in the order in which they were added
}

// reading contains the readings of B and of A that one constraint compares.
type reading struct{ b, a uint64 }

// train contains the constraints that were gathered back to back. Every window contains the whole
// train or none of it, so within a train a constraint may replace another that it implies.
type train struct {
	exchanges uint32 // complete ones in it
	gathered  uint32 // constraints before pruning; 0 in files that do not say
	stamps    Stamps
	b, a      Interval // readings that its constraints spanned before pruning

	by    Starter
	whole bool     // best is an exchange; a train of lone packets has none
	best  Exchange // the exchange of smallest round trip

	lower, upper []reading // b ascending; includes those of best until they are pruned
}

// NewPair returns a pair without constraints.
func NewPair(a, b Node, declared Assumptions) (*Pair, error) {
	p := &Pair{A: a, B: b, Declared: declared}
	if err := p.check(); err != nil {
		return nil, fmt.Errorf("pair %q with %q: %w", a.Name, b.Name, err)
	}
	return p, nil
}

// maxError_cycles limits quantum and core slack. 2²⁰ cycles are at least 200 µs, far more than any
// real counter needs.
const maxError_cycles = 1 << 20

func (p *Pair) check() error {
	if p.A.Name == p.B.Name {
		return fmt.Errorf("both nodes are named %q: %w", p.A.Name, ErrAssumption)
	}
	d := p.Declared
	switch {
	case d.Wander < 0 || d.Wander > d.MaxWander:
		return fmt.Errorf("wander %v is not between 0 and w_max %v: %w",
			d.Wander, d.MaxWander, ErrAssumption)
	case d.MaxWander > maxWander:
		return fmt.Errorf("w_max %v is above %v: %w", d.MaxWander, maxWander, ErrAssumption)
	case d.Window < time.Microsecond:
		return fmt.Errorf("window of %v is below 1 µs: %w", d.Window, ErrAssumption)
	case d.ExtrapolationLimit < 0 || d.ExtrapolationLimit > maxWindows*d.Window:
		return fmt.Errorf("extrapolation limit of %v is not between 0 and %d windows of %v: %w",
			d.ExtrapolationLimit, maxWindows, d.Window, ErrAssumption)
	}
	for _, n := range []Node{p.A, p.B} {
		switch w := n.cycles(d.Window); {
		case len(n.Name) > math.MaxUint16 || len(n.Epoch) > math.MaxUint16:
			return fmt.Errorf("name or epoch of node %.20q… is longer than %d bytes: %w",
				n.Name, math.MaxUint16, ErrAssumption)
		case !utf8.ValidString(n.Name) || !utf8.ValidString(n.Epoch):
			return fmt.Errorf("name %q or epoch %q is not UTF-8: %w",
				n.Name, n.Epoch, ErrAssumption)
		case w < minWindow_cycles || w > maxReach_cycles/2:
			return fmt.Errorf("node %q: a window of %v at %d Hz is not between %d and %d cycles: "+
				"%w", n.Name, d.Window, n.Nominal_hz, minWindow_cycles, maxReach_cycles/2,
				ErrAssumption)
		case n.Nominal_hz > max_hz:
			return fmt.Errorf("node %q: nominal rate of %d Hz is above %d: %w",
				n.Name, n.Nominal_hz, uint64(max_hz), ErrAssumption)
		case n.Quantum_cycles > maxError_cycles:
			return fmt.Errorf("node %q: quantum of %d cycles is above %d: %w",
				n.Name, n.Quantum_cycles, maxError_cycles, ErrAssumption)
		case n.CoreSlack_cycles > maxError_cycles:
			return fmt.Errorf("node %q: core slack of %d cycles is above %d: %w",
				n.Name, n.CoreSlack_cycles, maxError_cycles, ErrAssumption)
		}
	}
	return nil
}

const (
	maxTrainConstraints = 1 << 20

	minWindow_cycles = 1000
	max_hz           = 1 << 40
	maxWindows       = 1000 // of extrapolation
)

// cycles returns d in cycles of the node's counter at its nominal rate, rounded down.
func (n Node) cycles(d time.Duration) uint64 {
	hi, lo := bits.Mul64(n.Nominal_hz, uint64(d))
	if hi >= uint64(time.Second) {
		return math.MaxUint64
	}
	q, _ := bits.Div64(hi, lo, uint64(time.Second))
	return q
}

// CheckEpochs returns an error that wraps ErrEpoch unless the pair's nodes have these epochs.
func (p *Pair) CheckEpochs(epochA, epochB string) error {
	for _, e := range []struct {
		n    Node
		want string
	}{{p.A, epochA}, {p.B, epochB}} {
		if e.n.Epoch != e.want {
			return fmt.Errorf("pair %q with %q: node %q is of epoch %q, want %q: %w",
				p.A.Name, p.B.Name, e.n.Name, e.n.Epoch, e.want, ErrEpoch)
		}
	}
	return nil
}

// Wider returns the node with the larger quantum and the larger core slack of the two descriptions,
// so that the result is valid for both.
func (n Node) Wider(m Node) Node {
	n.Quantum_cycles = max(n.Quantum_cycles, m.Quantum_cycles)
	n.CoreSlack_cycles = max(n.CoreSlack_cycles, m.CoreSlack_cycles)
	return n
}

// Describe adds another description of one of the pair's nodes. The larger quantum and the larger
// core slack apply from now on, to earlier trains too. The nominal rate becomes that of n, since no
// bound rests on it. A node of another name or epoch changes nothing. Describe reports whether the
// pair changed.
func (p *Pair) Describe(n Node) (changed bool) {
	for _, own := range []*Node{&p.A, &p.B} {
		if own.Name != n.Name || own.Epoch != n.Epoch {
			continue
		}
		wider := n.Wider(*own)
		changed, *own = wider != *own, wider
	}
	return changed
}

// Train is the result of one train of exchanges, or of one exchange on its own.
type Train struct {
	By        Starter
	Exchanges []Exchange

	// OneWay contains the constraints of single packets whose exchange failed.
	OneWay []Constraint

	// Stamps says where the stamps come from, for reports. No bound depends on it.
	Stamps Stamps
}

// Stamps contains the number of stamps by who took them.
type Stamps struct {
	Kernel uint32 // the kernel, where the packet passed it
	User   uint32 // a program, around its system calls
}

// Add adds a train. The train must be short compared with the window: only windows that contain the
// whole train use it. One impossible exchange makes Add refuse the whole train, with an error that
// wraps ErrImpossible.
func (p *Pair) Add(t Train) error {
	if n := 2*len(t.Exchanges) + len(t.OneWay); n > maxTrainConstraints {
		return fmt.Errorf("add train to %q with %q: %d constraints are more than %d: split it",
			p.A.Name, p.B.Name, n, maxTrainConstraints)
	}
	nt := train{exchanges: uint32(len(t.Exchanges)), by: t.By, stamps: t.Stamps}
	starter, answerer := p.A, p.B
	if t.By == StartedByB {
		starter, answerer = p.B, p.A
	}
	for _, c := range t.OneWay {
		nt.add(c)
	}
	for _, e := range t.Exchanges {
		if err := e.Check(starter.CoreSlack_cycles, answerer.CoreSlack_cycles); err != nil {
			return fmt.Errorf("add train to %q with %q: %w", p.A.Name, p.B.Name, err)
		}
		lower, upper := e.Constraints(t.By)
		nt.add(lower)
		nt.add(upper)
		if !nt.whole || e.RoundTrip_cycles() < nt.best.RoundTrip_cycles() {
			nt.whole, nt.best = true, e
		}
	}
	if len(nt.lower)+len(nt.upper) == 0 {
		return fmt.Errorf("add train to %q with %q: it holds neither exchange nor packet",
			p.A.Name, p.B.Name)
	}
	nt.sort()
	nt.gathered = uint32(len(nt.lower) + len(nt.upper))
	if w := p.B.cycles(p.Declared.Window); nt.b.Width() > w/2 {
		return fmt.Errorf("add train to %q with %q: it took %d cycles of %q, more than half of a "+
			"window of %d: split it", p.A.Name, p.B.Name, nt.b.Width(), p.B.Name, w)
	}
	p.trains = append(p.trains, nt)
	return nil
}

func (t *train) add(c Constraint) {
	if len(t.lower)+len(t.upper) == 0 {
		t.b, t.a = At(c.B), At(c.A)
	}
	t.b = Interval{min(t.b.Lo, c.B), max(t.b.Hi, c.B)}
	t.a = Interval{min(t.a.Lo, c.A), max(t.a.Hi, c.A)}
	if c.Kind == Lower {
		t.lower = append(t.lower, reading{c.B, c.A})
	} else {
		t.upper = append(t.upper, reading{c.B, c.A})
	}
}

func (t *train) sort() {
	for _, rs := range []*[]reading{&t.lower, &t.upper} {
		slices.SortFunc(*rs, compareReadings)
		*rs = slices.Compact(*rs)
	}
}

func compareReadings(x, y reading) int {
	return cmp.Or(cmp.Compare(x.b, y.b), cmp.Compare(x.a, y.a))
}

// Trains returns the number of trains.
func (p *Pair) Trains() int { return len(p.trains) }

// Constraints returns the number of constraints that are kept.
func (p *Pair) Constraints() int {
	n := 0
	for _, t := range p.trains {
		n += len(t.lower) + len(t.upper)
	}
	return n
}

// Best returns, for each train that the given node started, the exchange of smallest round trip.
// PaperRelate takes these.
func (p *Pair) Best(by Starter) []Exchange {
	var es []Exchange
	for _, t := range p.trains {
		if t.whole && t.by == by {
			es = append(es, t.best)
		}
	}
	return es
}

// Split returns, as two pairs, the trains that lie wholly before B's reading b and the trains that
// lie wholly after b. It is the remedy for a step.
func (p *Pair) Split(b uint64) (before, after *Pair) {
	before = &Pair{A: p.A, B: p.B, Declared: p.Declared}
	after = &Pair{A: p.A, B: p.B, Declared: p.Declared}
	for _, t := range p.trains {
		switch {
		case t.b.Hi < b:
			before.trains = append(before.trains, t)
		case t.b.Lo > b:
			after.trains = append(after.trains, t)
		}
	}
	return before, after
}
