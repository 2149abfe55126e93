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

	// ErrWanderAboveMax is returned for a wander above Assumptions.MaxWander. Either the caller
	// asked for this wander, or it is twice the smallest wander that the constraints allow.
	ErrWanderAboveMax = errors.New("wander above w_max")

	// ErrEpoch is returned for readings or descriptions of one node that belong to different
	// epochs, and so cannot be used together.
	ErrEpoch = errors.New("another epoch")
)

// Node describes one node and its counter.
type Node struct {
	Name string

	// Epoch names a time in which nothing interrupted the counter. Readings of different epochs
	// cannot be compared.
	Epoch string

	// Nominal_hz converts the window and the extrapolation limit into cycles of this counter. The
	// value need not be accurate, because no bound is computed from it.
	Nominal_hz uint64

	// Quantum_cycles is the step q in which the counter moves. A reading c means that the exact
	// count lies in [c, c + q]. A counter that moves in single cycles has a quantum of 1, because
	// the exact count may lie between two cycles.
	Quantum_cycles uint64

	// CoreSlack_cycles is the largest difference between readings taken on different cores at one
	// moment. 0 is correct only if all readings of the node come from one core.
	CoreSlack_cycles uint64
}

// Assumptions are what a relation rests on, in addition to the quanta, the core slacks and unbroken
// epochs.
type Assumptions struct {
	// Wander is how far the rate may move from its mean, within Window before and after any
	// reading.
	Wander Wander
	Window time.Duration

	// ExtrapolationLimit is how long before the first constraint, and how long after the last one,
	// a reading is still translated.
	ExtrapolationLimit time.Duration

	// MaxWander is the largest wander for which Prune keeps every constraint that matters. Relate
	// refuses a larger wander.
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

// Pair contains everything that is proven about two counters: the constraints, and the assumptions
// under which they were gathered. Pair.Relate computes a relation from it. Only one goroutine at a
// time may use a Pair.
type Pair struct {
	A, B     Node
	Declared Assumptions

	trains []train // in the order in which they were added
}

// reading contains the reading of B and the reading of A that one constraint compares.
type reading struct{ b, a uint64 }

// train contains the constraints of packets that were exchanged back to back. A window uses all
// constraints of a train or none of them. So a constraint may be dropped if another constraint of
// the same train implies it.
type train struct {
	exchanges uint32 // complete exchanges in the train
	gathered  uint32 // constraints before pruning; 0 if the train's file does not say
	stamps    Stamps
	b, a      Interval // smallest and largest reading of the constraints, before pruning

	by    Starter
	whole bool     // best is set; a train of single packets has no exchange
	best  Exchange // the exchange of smallest round trip, if whole

	lower, upper []reading // b ascending; until pruning they include the constraints of best
}

// NewPair returns a pair without constraints.
func NewPair(a, b Node, declared Assumptions) (*Pair, error) {
	p := &Pair{A: a, B: b, Declared: declared}
	if err := p.check(); err != nil {
		return nil, fmt.Errorf("pair %q with %q: %w", a.Name, b.Name, err)
	}
	return p, nil
}

// maxError_cycles is the largest quantum and the largest core slack that a node may have. Even at 5
// GHz, 2²⁰ cycles take 200 µs, far more than the quantum or core slack of any real counter.
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
	maxWindows       = 1000 // longest extrapolation, in windows
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

// CheckEpochs returns an error that wraps ErrEpoch unless A is in epochA and B is in epochB.
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

// Wider returns the node with the larger quantum and the larger core slack of two descriptions, so
// that the result is valid wherever one of the two descriptions is valid.
func (n Node) Wider(m Node) Node {
	n.Quantum_cycles = max(n.Quantum_cycles, m.Quantum_cycles)
	n.CoreSlack_cycles = max(n.CoreSlack_cycles, m.CoreSlack_cycles)
	return n
}

// Describe adds another description of one of the pair's nodes. From now on the larger quantum and
// the larger core slack apply, to earlier trains too. The nominal rate of the new description
// replaces the earlier nominal rate, because no bound rests on the nominal rate. If no node of the
// pair has the name and the epoch of the description, nothing changes. Describe reports whether the
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

	// OneWay contains constraints from exchanges in which only one packet arrived.
	OneWay []Constraint

	// Stamps counts the stamps by their source, for reports. No bound depends on it.
	Stamps Stamps
}

// Stamps counts stamps by who took them.
type Stamps struct {
	Kernel uint32 // stamps that the kernel took when it handled the packet
	User   uint32 // stamps that a program took around its system calls
	Shared uint32 // no packets: moments that both nodes saw on a clock that they share
}

// Add adds a train. A window uses a train only if it contains the whole train, so the train must be
// short compared with the window. If one exchange is impossible, the whole train is refused, with
// an error that wraps ErrImpossible.
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
	nt.lower = make([]reading, 0, len(t.Exchanges)) // no larger: there may be many trains
	nt.upper = make([]reading, 0, len(t.Exchanges))
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

// Constraints returns the number of constraints that the pair keeps.
func (p *Pair) Constraints() int {
	n := 0
	for _, t := range p.trains {
		n += len(t.lower) + len(t.upper)
	}
	return n
}

// Best returns, for each train that the given node started, the exchange of smallest round trip.
// PaperRelate takes such exchanges.
func (p *Pair) Best(by Starter) []Exchange {
	var es []Exchange
	for _, t := range p.trains {
		if t.whole && t.by == by {
			es = append(es, t.best)
		}
	}
	return es
}

// Split returns two pairs: one with the trains that lie wholly before B's reading b, and one with
// the trains that lie wholly after b. If a counter stepped at b, each of the two pairs can still be
// related.
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
