package tscratio

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cloudprofiler/cloudprofiler/internal/seed"
)

// fleet is a set of nodes with wandering rates. The wander of the relative rate of any two nodes is
// at most w.
type fleet struct {
	clocks []*clock
	rng    *rand.Rand
	w      Wander
	pairs  map[[2]int]*Pair

	// lies[{i, j}] is the error of the stamps that node i reports to node j, in cycles of i. If
	// there is no entry, node i tells node j the truth.
	lies map[[2]int]int64
}

func newFleet(rng *rand.Rand, nodes, seconds int, w Wander, quantum, slack uint64) *fleet {
	f := &fleet{rng: rng, w: w, pairs: map[[2]int]*Pair{}, lies: map[[2]int]int64{}}
	for i := range nodes {
		hz := 2e9 + rng.Float64()*1.5e9
		n := Node{Name: string(rune('a' + i)), Epoch: fmt.Sprint(i), Nominal_hz: uint64(hz),
			Quantum_cycles: max(1, quantum), CoreSlack_cycles: slack}
		d := sine(rng, (seconds+2)*second/segment)
		for j := range d {
			d[j] *= float64(w) * 1e-12 / 2 * 0.999
		}
		f.clocks = append(f.clocks,
			newClock(n, rng.Uint64N(1<<62), hz*(1+(rng.Float64()-0.5)*1e-4), d))
	}
	return f
}

// measure runs trains between two of the nodes.
func (f *fleet) measure(t *testing.T, a, b int, net network, from, to float64) {
	t.Helper()
	x := &world{a: f.clocks[a], b: f.clocks[b], rng: f.rng, net: net}
	if off, ok := f.lies[[2]int{a, b}]; ok {
		x.lie = func(e *Exchange, by Starter) { e.shiftStamps(by == StartedByA, off) }
	} else if off, ok := f.lies[[2]int{b, a}]; ok {
		x.lie = func(e *Exchange, by Starter) { e.shiftStamps(by == StartedByB, off) }
	}
	p := f.pairs[[2]int{a, b}]
	if p == nil {
		p = mustReturn(NewPair(x.a.node, x.b.node, declared(f.w)))(t)
		f.pairs[[2]int{a, b}] = p
	}
	for s := from; s < to; s += 0.5 {
		x.train(t, p, uint64(s*second), 6, StartedByA)
	}
}

// measureAll runs trains between every two nodes.
func (f *fleet) measureAll(t *testing.T, net network, from, to float64) {
	t.Helper()
	for i := range f.clocks {
		for j := range i {
			f.measure(t, j, i, net, from, to)
		}
	}
}

// closure returns the closure of all measured pairs, related in both directions.
func (f *fleet) closure(t *testing.T, third ThirdNodes) *Closure {
	t.Helper()
	var rs []*Relation
	for _, p := range f.pairs {
		for _, into := range []Side{SideA, SideB} {
			rs = append(rs, mustReturn(p.Relate(into, f.w))(t))
		}
	}
	return mustReturn(NewClosure(rs, third))(t)
}

// event returns a reading of a random core of node i at a moment.
func (f *fleet) event(i int, at uint64) Event {
	return Event{f.clocks[i].node.Name, f.clocks[i].read(at, f.rng.IntN(2))}
}

func TestClosureHoldsTruth(t *testing.T) {
	seed.For(t, 6, func(t *testing.T, rng *rand.Rand) {
		f := newFleet(rng, 4, 40, 1*PPM, 26, 40)
		far, near := network{base: 40, asymmetry: 60, jitter: 5}, network{base: 3, jitter: 1}
		f.measure(t, 0, 1, far, 0.5, 39)
		f.measure(t, 0, 2, near, 0.5, 39)
		f.measure(t, 1, 2, near, 0.5, 39)
		f.measure(t, 2, 3, near, 0.5, 39) // d is related to a and to b only by way of c
		c := f.closure(t, ThirdAny)
		direct := mustReturn(f.pairs[[2]int{0, 1}].Relate(SideA, f.w))(t)
		narrower := 0
		for range 300 {
			at := uint64((1 + rng.Float64()*37) * second)
			for from := range 4 {
				for into := range 4 {
					e := f.event(from, at)
					got := mustReturn(c.Translate(e.Node, f.clocks[into].node.Name, e.Reading))(t)
					if truth := f.event(into, at); from != into && !got.Contains(truth.Reading) {
						t.Fatalf("%v: %v by %v and %v, truth %v",
							e, got.Interval, got.LoPath, got.HiPath, truth)
					}
					if from == 1 && into == 0 {
						own := mustReturn(direct.Translate(e.Reading))(t)
						if got.Width() > own.Width() {
							t.Errorf("closed %v is wider than direct %v", got.Interval, own)
						}
						if got.Width() < own.Width()/2 {
							narrower++
							if want := "b → c → a"; got.LoPath.String() != want ||
								got.HiPath.String() != want {
								t.Errorf("paths %v, %v, want %s", got.LoPath, got.HiPath, want)
							}
						}
					}
					if from == 3 && into == 0 && got.LoPath.String() != "d → c → a" {
						t.Errorf("path %v from d to a", got.LoPath)
					}
				}
			}
		}
		if narrower < 290 {
			t.Errorf("the path over c was much narrower in %d of 300", narrower)
		}
		if a := c.Audit(20); len(a.Disagreements) != 0 {
			t.Errorf("%v", a.Disagreements[0])
		}
	})
}

// cyclesBetween returns how many cycles a clock really counted between two moments.
func (c *clock) cyclesBetween(from, to uint64) int64 { return int64(c.count(to) - c.count(from)) }

func TestDurationsHoldTruth(t *testing.T) {
	seed.For(t, 6, func(t *testing.T, rng *rand.Rand) {
		quantum, slack := []uint64{1, 40}[rng.IntN(2)], []uint64{0, 60}[rng.IntN(2)]
		f := newFleet(rng, 3, 60, 1*PPM, quantum, slack)
		for _, p := range [][2]int{{0, 1}, {0, 2}, {1, 2}} {
			f.measure(t, p[0], p[1], network{base: 3, asymmetry: rng.Float64() * 20, jitter: 1},
				0.5, 59)
		}
		c := f.closure(t, ThirdAny)
		seen := map[Scenario]int{}
		for range 600 {
			u := uint64((2 + rng.Float64()*55) * second)
			v := uint64((2 + rng.Float64()*55) * second)
			if rng.IntN(2) == 0 { // half of the durations are short
				v = u + uint64(rng.Float64()*1000*microsecond) - second/2000
			}
			on, to, ref := rng.IntN(3), rng.IntN(3), rng.IntN(3)
			d := mustReturn(c.Duration(f.clocks[ref].node.Name, f.event(on, u), f.event(to, v)))(t)
			seen[d.Scenario]++
			truth := f.clocks[ref].cyclesBetween(u, v)
			// The true duration is computed from whole cycles, so it is exact only to one cycle.
			if truth+1 < d.Lo || truth-1 > d.Hi {
				t.Fatalf("%v from node %d to %d in cycles of %d: %v, truth %d",
					d.Scenario, on, to, ref, d.Elapsed, truth)
			}
			if o := d.Order(); o == Before && v < u || o == After && u < v {
				t.Fatalf("order %v of %d and %d", o, u, v)
			}
			if on == to && on != ref &&
				d.Width() > 2*(quantum+slack+2)*2+uint64(float64(max(truth, -truth))*12e-6) {
				t.Errorf("same node: %d cycles wide for %d cycles", d.Width(), truth)
			}
		}
		for _, s := range []Scenario{Trivial, SameNode, Direct} {
			if seen[s] == 0 {
				t.Errorf("no duration was found by %v: %v", s, seen)
			}
		}
	})
}

// TestSameNodeCountsQuantumAndSlack uses readings that differ from the truth by as much as core
// slack and quantum allow.
func TestSameNodeCountsQuantumAndSlack(t *testing.T) {
	rng := rand.New(rand.NewPCG(4, 0))
	f := newFleet(rng, 2, 30, 100*PPB, 1000, 3000)
	f.measure(t, 0, 1, network{base: 3, jitter: 1}, 0.5, 29)
	c := f.closure(t, ThirdNone)
	for range 3000 {
		u := uint64((5 + rng.Float64()*20) * second)
		v := u + rng.Uint64N(10_000)
		for _, ref := range []int{0, 1} {
			d := mustReturn(c.Duration(f.clocks[ref].node.Name, f.event(1, u), f.event(1, v)))(t)
			if truth := f.clocks[ref].cyclesBetween(u, v); truth+1 < d.Lo || truth-1 > d.Hi {
				t.Fatalf("%v in cycles of %d: %v, truth %d", d.Scenario, ref, d.Elapsed, truth)
			}
		}
	}
}

// TestPapersScenariosAreNotTighter compares durations with those of the paper's method, for
// counters and networks that meet the paper's assumptions. The paper's intervals must not be
// narrower.
func TestPapersScenariosAreNotTighter(t *testing.T) {
	rng := rand.New(rand.NewPCG(9, 0))
	f := newFleet(rng, 3, 40, 0, 1, 0)
	for _, c := range f.clocks {
		c.node.Quantum_cycles = 0
	}
	paper := map[[2]int]PaperRelation{}
	for _, p := range [][2]int{{0, 1}, {0, 2}, {1, 2}} {
		f.measure(t, p[0], p[1], network{base: 10, jitter: 2}, 0.5, 39)
		best := f.pairs[p].Best(StartedByA)
		paper[p] = mustReturn(PaperRelate(best[:10], best[len(best)-10:]))(t)
	}
	c := f.closure(t, ThirdAny)
	for range 500 {
		u := uint64((10 + rng.Float64()*20) * second)
		v := u + rng.Uint64N(second)
		b, onC := f.event(1, u), f.event(2, v)
		d := mustReturn(c.Duration("a", b, onC))(t)
		for what, s := range map[string]PaperValue{
			"scenario 3": mustReturn(PaperDirect(paper[[2]int{0, 1}], paper[[2]int{1, 2}],
				b.Reading,
				onC.Reading))(t),
			"baseline": mustReturn(PaperBaseline(paper[[2]int{0, 1}], paper[[2]int{0, 2}],
				b.Reading,
				onC.Reading))(t),
		} {
			if p := mustReturn(s.Elapsed())(t); d.Width() > p.Width() {
				t.Errorf("%s: ours %v, %d wide, the paper's %d", what, d, d.Width(), p.Width())
			}
		}
		b2 := f.event(1, v)
		d = mustReturn(c.Duration("a", b, b2))(t)
		value := paper[[2]int{0, 1}].SameNode(b.Reading, b2.Reading)
		if p := mustReturn(value.Elapsed())(t); d.Width() > p.Width()+2 {
			t.Errorf("scenario 1: ours %v, %d wide, the paper's %d", d, d.Width(), p.Width())
		}
	}
}

func TestAuditAccusesLiar(t *testing.T) {
	rng := rand.New(rand.NewPCG(2, 0))
	f := newFleet(rng, 4, 30, 1*PPM, 1, 0)
	for i := range 4 {
		for j := range i {
			f.measure(t, j, i, network{base: 3, jitter: 1}, 0.5, 29)
		}
	}
	// Node c lies to b only: it shifts the stamps that it reports to b.
	p := f.pairs[[2]int{1, 2}]
	for i := range p.trains {
		tr := &p.trains[i]
		tr.b.Lo, tr.b.Hi = tr.b.Lo+90_000, tr.b.Hi+90_000
		tr.lower, tr.upper = slices.Clone(tr.lower), slices.Clone(tr.upper)
		for _, rs := range [][]reading{tr.lower, tr.upper} {
			for k := range rs {
				rs[k].b += 90_000
			}
		}
	}
	c := f.closure(t, ThirdAny)
	e := f.event(2, 15*second)
	_, err := c.Translate("c", "b", e.Reading)
	var broken *DisagreementError
	if !errors.As(err, &broken) || !slices.Contains(broken.Nodes(), "c") {
		t.Fatalf("Translate: %v", err)
	}
	if got := c.Audit(5); len(got.Disagreements) < 2 ||
		!slices.Equal(got.Accused, []string{"b", "c"}) {
		t.Errorf("%d disagreements, accused %v, want b and c, whose relation is wrong",
			len(got.Disagreements), got.Accused)
	}
	_, err = c.Duration("a", f.event(1, 15*second), f.event(2, 15*second))
	if !errors.As(err, &broken) {
		t.Errorf("Duration: %v", err)
	}
}

// The closure uses the direct relation, and those paths over third nodes that ThirdNodes permits.
func TestClosurePaths(t *testing.T) {
	var rs []*Relation
	// b has no direct relation to d, and c has none to a.
	for _, way := range []string{"ab", "ac", "ad", "ba", "bc", "cb", "cd", "da", "db"} {
		rs = append(rs, &Relation{From: Node{Name: way[:1]}, Into: Node{Name: way[1:]}})
	}
	for _, test := range []struct {
		from, into string
		third      ThirdNodes
		want       []string
	}{
		{"a", "b", ThirdNone, []string{"ab"}},
		{"a", "b", ThirdAny, []string{"ab", "acb", "adb"}},
		{"a", "b", ThirdAgreed, []string{"ab", "acb", "adb"}},
		{"b", "d", ThirdNone, nil},
		{"b", "d", ThirdAny, []string{"bad", "bcd"}},
		{"a", "c", ThirdAgreed, []string{"ac"}},
		{"a", "c", ThirdAny, []string{"ac", "abc"}},
	} {
		c := mustReturn(NewClosure(rs, test.third))(t)
		paths, _ := c.paths(c.index(test.from), c.index(test.into))
		var got []string
		for _, p := range paths {
			got = append(got, strings.Join(p.nodes(), ""))
		}
		if !slices.Equal(got, test.want) {
			t.Errorf("from %s into %s, third nodes %v: %q, want %q",
				test.from, test.into, test.third, got, test.want)
		}
	}
}

func TestClosureRefuses(t *testing.T) {
	rng := rand.New(rand.NewPCG(2, 0))
	f := newFleet(rng, 3, 20, 1*PPM, 1, 0)
	f.measure(t, 0, 1, network{base: 3, jitter: 1}, 0.5, 19)
	p := f.pairs[[2]int{0, 1}]
	r := mustReturn(p.Relate(SideA, f.w))(t)
	c := mustReturn(NewClosure([]*Relation{r}, ThirdAny))(t)
	if _, err := c.Translate("a", "b", 1); !errors.Is(err, ErrNoPath) {
		t.Errorf("against the relation's direction: %v", err)
	}
	if _, err := c.Translate("b", "c", 1); !errors.Is(err, ErrNoPath) {
		t.Errorf("to a node that is not there: %v", err)
	}
	if _, err := c.Translate("b", "a", 1); !errors.Is(err, ErrBeyondLimit) {
		t.Errorf("long before the first constraint: %v", err)
	}
	if _, err := NewClosure([]*Relation{r, r}, ThirdAny); err == nil {
		t.Errorf("accepts two relations for one direction")
	}
	other := *r
	other.From.Name, other.Into.Epoch = "c", "rebooted"
	if _, err := NewClosure([]*Relation{r, &other}, ThirdAny); !errors.Is(err, ErrEpoch) {
		t.Errorf("two epochs of a node: %v", err)
	}
}

// An estimate never narrows what is proven.
func TestClosurePrefersConsistent(t *testing.T) {
	rng := rand.New(rand.NewPCG(2, 0))
	f := newFleet(rng, 3, 20, 1*PPM, 1, 0)
	for _, p := range [][2]int{{0, 1}, {0, 2}, {1, 2}} {
		f.measure(t, p[0], p[1], network{base: 3, jitter: 1}, 0.5, 19)
	}
	var rs []*Relation
	for _, p := range f.pairs {
		rs = append(rs, mustReturn(p.Relate(SideA, f.w))(t), mustReturn(p.Relate(SideB, f.w))(t))
	}
	e := f.event(1, 10*second)
	before := mustReturn(mustReturn(NewClosure(rs, ThirdAny))(t).Translate("b", "a", e.Reading))(t)
	for _, r := range rs {
		if r.From.Name == "c" || r.Into.Name == "c" {
			r.Verdict = Suspect
		}
	}
	c := mustReturn(NewClosure(rs, ThirdAny))(t)
	after := mustReturn(c.Translate("b", "a", e.Reading))(t)
	if after.Verdict != Consistent || after.LoPath.String() != "b → a" ||
		after.HiPath.String() != "b → a" || after.Width() < before.Width() {
		t.Errorf("%+v with suspect paths, %+v without", after, before)
	}
	// Under ThirdAgreed, one third node alone narrows nothing, even if the direct relation is only
	// an estimate.
	for _, r := range rs {
		r.Verdict = Consistent
		if r.From.Name != "c" && r.Into.Name != "c" {
			r.Verdict = Suspect
		}
	}
	for third, want := range map[ThirdNodes]Verdict{ThirdAny: Consistent, ThirdAgreed: Suspect,
		ThirdNone: Suspect} {
		got := mustReturn(mustReturn(NewClosure(rs, third))(t).Translate("b", "a", e.Reading))(t)
		if got.Verdict != want || (len(got.LoPath) == 2) != (want == Suspect) {
			t.Errorf("third nodes %v: %+v where only third nodes are consistent", third, got)
		}
	}
	for _, r := range rs {
		r.Verdict = Consistent
		if r.From.Name == "c" || r.Into.Name == "c" {
			r.Verdict = Suspect
		}
	}
	over := mustReturn(c.Translate("c", "a", f.event(2, 10*second).Reading))(t)
	if over.Verdict != Suspect {
		t.Errorf("verdict %v where all paths are suspect", over.Verdict)
	}
	d := mustReturn(c.Duration("a", f.event(1, 10*second), f.event(2, 11*second)))(t)
	if d.Verdict != Suspect {
		t.Errorf("duration's verdict %v where all methods are suspect", d.Verdict)
	}
	d = mustReturn(c.Duration("a", f.event(0, 10*second), f.event(1, 11*second)))(t)
	if d.Verdict != Consistent {
		t.Errorf("duration's verdict %v where one method is not suspect", d.Verdict)
	}
}

func TestOrder(t *testing.T) {
	for _, tc := range []struct {
		s    Elapsed
		want Order
	}{{Elapsed{1, 5}, Before}, {Elapsed{-5, -1}, After}, {Elapsed{0, 5}, Undecided},
		{Elapsed{-5, 0}, Undecided}, {Elapsed{-1, 1}, Undecided}} {
		if got := tc.s.Order(); got != tc.want {
			t.Errorf("%v.Order() = %v, want %v", tc.s, got, tc.want)
		}
	}
}

// TestRatesHoldTruth compares proven rates with the simulated clocks' rates.
func TestRatesHoldTruth(t *testing.T) {
	seed.For(t, 4, func(t *testing.T, rng *rand.Rand) {
		x := newWorld(rng, 40, sine, 1*PPM, 10*time.Second, 1, 0)
		x.net = networks["near and steady"]
		r := mustReturn(x.pair(t, declared(1*PPM), 6, 0.5).Relate(SideA, 1*PPM))(t)
		for range 500 {
			at := rng.Uint64N(40 * second)
			got := mustReturn(r.Rate(x.b.count(at)))(t)
			truth := float64(x.a.rates[at/segment]) / float64(x.b.rates[at/segment])
			if truth < got.Lo.Float()*(1-1e-15) || truth > got.Hi.Float()*(1+1e-15) {
				t.Fatalf("rate %v at %.2f s, truth %.15f", got, float64(at)/second, truth)
			}
			if lo, hi := got.PPB(truth); lo > 0 || hi < 0 ||
				at > second && at < 39*second && hi-lo > 8000 {
				t.Errorf("rate from %g to %g ppb off the truth", lo, hi)
			}
		}
	})
}

// TestCountersNearTheirEnds lets counters begin at values where sums overflow.
func TestCountersNearTheirEnds(t *testing.T) {
	for _, tc := range []struct{ a, b uint64 }{
		{0, 0}, {0, 1 << 63}, {1 << 63, 5}, {math.MaxUint64 - 300e9, 0},
		{0, math.MaxUint64 - 300e9}, {1<<63 - 1000, 1<<63 - 20e9},
	} {
		rng := rand.New(rand.NewPCG(tc.a, tc.b))
		x := newWorld(rng, 20, sine, 1*PPM, 10*time.Second, 26, 30)
		for c, start := range map[*clock]uint64{x.a: tc.a, x.b: tc.b} {
			shift := start - c.whole[0]
			for i := range c.whole {
				c.whole[i] += shift
			}
		}
		x.net = networks["asymmetric"]
		p := x.pair(t, declared(1*PPM), 6, 0.5)
		for _, into := range []Side{SideA, SideB} {
			r := mustReturn(p.Relate(into, 1*PPM))(t)
			// If a counter begins at 0, the relation translates no reading from before the counter
			// began.
			if bad := x.countOutside(t, r, 2000, 0.001, 20); bad > 0 {
				t.Errorf("A from %d, B from %d, into %v: %d of 2000 outside", tc.a, tc.b, into, bad)
			}
		}
	}
}

// A made-up counter may give a duration of decades. Computing it takes no more work than a duration
// of half a day. The result contains the truth, or the duration is refused.
func TestDurationOfCenturies(t *testing.T) {
	const years = uint64(1) << 61 // in cycles: 24 years
	p := mustReturn(NewPair(Node{Name: "a", Nominal_hz: 3e9, Quantum_cycles: 1},
		Node{Name: "b", Nominal_hz: 3e9, Quantum_cycles: 1}, DefaultAssumptions()))(t)
	for _, begin := range []uint64{1e9, 1e9 + years} {
		for at := begin; at < begin+60e9; at += 1e9 {
			p.Add(Train{OneWay: []Constraint{{Kind: Lower, B: at, A: at - 500},
				{Kind: Upper, B: at, A: at + 500}}})
		}
	}
	r := mustReturn(p.Relate(SideA, PPM))(t)
	begun := time.Now()
	for range 100 {
		first := uint64(1e9)
		if d, err := r.SameNode(first, first+years/3); !errors.Is(err, ErrBeyondLimit) {
			t.Fatalf("over more windows than the wander is known in: %v, %v", d, err)
		}
		for _, length := range []uint64{years, 5000 * 30e9} {
			d := mustReturn(r.SameNode(first, first+length))(t)
			if d.Lo > int64(length) || d.Hi < int64(length) {
				t.Fatalf("%d cycles are %v", length, d)
			}
			if back := mustReturn(r.SameNode(first+length, first))(t); back.Lo > -int64(length) ||
				back.Hi < -int64(length) {
				t.Fatalf("%d cycles backwards are %v", length, back)
			}
		}
		if took := time.Since(begun); took > 10*time.Second {
			t.Fatalf("this takes too long: %v so far", took)
		}
	}
}
