package tscratio

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/cloudprofiler/cloudprofiler/internal/seed"
)

// honestNetwork is the network of these tests. No packet takes less than 3 µs.
var honestNetwork = network{base: 3, jitter: 1}

// claimedShorter is the amount by which a liar shortens a packet's delay in either direction, in
// the liar's cycles. The peer sees nothing that contradicts the lie. But relations that rest on the
// liar become narrower than the truth allows.
const claimedShorter = 5000

// shiftStamps shifts the stamps of one node, and makes the delay between this node and its peer
// look shorter.
func (e *Exchange) shiftStamps(starter bool, off int64) {
	first, second, shorter := &e.Received, &e.Answered, int64(claimedShorter)
	if starter {
		first, second, shorter = &e.Sent, &e.Returned, -claimedShorter
	}
	for _, s := range []struct {
		stamp *Interval
		by    int64
	}{{first, off - shorter}, {second, off + shorter}} {
		s.stamp.Lo, s.stamp.Hi = offset(s.stamp.Lo, s.by), offset(s.stamp.Hi, s.by)
	}
}

// withLiar measures all pairs of the liar again. The function lie returns, for each peer, by how
// much the liar's stamps for that peer are false.
func (f *fleet) withLiar(t *testing.T, liar int, seconds float64, lie func(peer int) int64) {
	t.Helper()
	for peer := range f.clocks {
		for _, p := range [][2]int{{liar, peer}, {peer, liar}} {
			if f.pairs[p] != nil {
				f.lies[[2]int{liar, peer}] = lie(peer)
				delete(f.pairs, p)
				f.measure(t, p[0], p[1], honestNetwork, 0.5, seconds-0.5)
			}
		}
	}
}

// copyFleet returns a fleet of the same clocks and pairs, in which no node lies.
func (f *fleet) copyFleet() *fleet {
	g := &fleet{clocks: f.clocks, rng: f.rng, w: f.w, pairs: map[[2]int]*Pair{},
		lies: map[[2]int]int64{}}
	for k, p := range f.pairs {
		g.pairs[k] = p
	}
	return g
}

// someFleet returns a fleet of three to five nodes, in which some pairs were not measured.
func someFleet(t *testing.T, rng *rand.Rand, seconds int) *fleet {
	t.Helper()
	n := 3 + rng.IntN(3)
	f := newFleet(rng, n, seconds, 1*PPM, []uint64{1, 40}[rng.IntN(2)],
		[]uint64{0, 60}[rng.IntN(2)])
	for i := range n {
		for j := range i {
			if rng.IntN(6) > 0 {
				net := honestNetwork
				if rng.IntN(3) == 0 {
					// Make the direct bound wide, so that third nodes could narrow it much.
					net.asymmetry, net.jitter = 60, 5
				}
				f.measure(t, j, i, net, 0.5, float64(seconds)-0.5)
			}
		}
	}
	return f
}

// If a liar's stamps are plausible, only the liar's own relations become wrong, and they are wrong
// by the size of the lie. With ThirdAny the relations of other nodes move too, but never beyond
// what these nodes measured themselves.
func TestPlausibleLiarMovesOnlyItsOwn(t *testing.T) {
	const seconds, upto = 12, 20_000 // 20,000 cycles: 6 to 10 µs, more than a round trip
	falsified, checked := 0, 0
	seed.For(t, 4, func(t *testing.T, rng *rand.Rand) {
		truthful := someFleet(t, rng, seconds)
		for liar := range truthful.clocks {
			f := truthful.copyFleet()
			f.withLiar(t, liar, seconds, func(int) int64 { return rng.Int64N(2*upto+1) - upto })
			for _, third := range []ThirdNodes{ThirdAgreed, ThirdAny, ThirdNone} {
				c := f.closure(t, third)
				for range 60 {
					at := uint64((1 + rng.Float64()*(seconds-2)) * second)
					from, into := rng.IntN(len(f.clocks)), rng.IntN(len(f.clocks))
					e, truth := f.event(from, at), f.event(into, at)
					got, err := c.Translate(e.Node, truth.Node, e.Reading)
					if errors.Is(err, ErrNoPath) {
						continue
					}
					var broken *DisagreementError
					switch {
					case errors.As(err, &broken):
						if !slices.Contains(broken.Nodes(), f.clocks[liar].node.Name) {
							t.Fatalf("%v lies, but others are named: %v", liar, err)
						}
						if from != liar && into != liar && third != ThirdAny {
							t.Fatalf("third nodes %v: %d lies, and %d in %d is not answered: %v",
								third, liar, from, into, err)
						}
					case err != nil:
						t.Fatal(err)
					case from == liar || into == liar:
						if own, err := c.direct(e.Node, truth.Node); err == nil {
							off := uint64(upto * 1.8) // rates of two nodes differ by less than 1.8
							alone := mustReturn(own.Translate(e.Reading))(t)
							if !(Interval{down(got.Lo, off),
								up(got.Hi, off)}).Contains(truth.Reading) ||
								own.Verdict != Consistent ||
								got.Intersect(alone) != got.Interval {
								t.Fatalf("third nodes %v: %d in %d moved out of its own %v (%v): "+
									"%v, truth %d", third, from, into, alone, own.Verdict, got,
									truth.Reading)
							}
						}
					case third == ThirdAny:
						checked++
						if !got.Contains(truth.Reading) {
							falsified++
							if own, err := c.direct(e.Node, truth.Node); err == nil &&
								got.Intersect(mustReturn(own.Translate(e.Reading))(
									t)) != got.Interval {
								t.Fatalf("%v is not within what %d and %d measured themselves",
									got, from, into)
							}
						}
					default:
						// The liar may be the reference: its lies do not change the length of its
						// cycles.
						ref := rng.IntN(len(f.clocks))
						if from == into {
							// There is one exception. If both events are on one node, the duration
							// rests only on the relation of this node and the reference. So the
							// liar must not be the reference.
							ref = from
						}
						later := at + uint64(rng.Float64()*2000*microsecond)
						y := f.event(into, later)
						w := mustReturn(c.Ways(f.clocks[ref].node.Name, e.Node, y.Node))(t)
						d, err := c.Duration(f.clocks[ref].node.Name, e, y)
						also, errWays := w.Duration(e.Reading, y.Reading)
						span := f.clocks[ref].cyclesBetween(at, later)
						if err := errors.Join(err, errWays); err == nil &&
							!(d.Lo <= span+1 && span-1 <= d.Hi && also.Lo <= span+1 &&
								span-1 <= also.Hi) || err != nil && !errors.Is(err, ErrNoPath) {
							t.Fatalf("third nodes %v: %d lies, and from %d to %d in cycles of %d "+
								"are %v and %v, truth %d: %v", third, liar, from, into, ref, d,
								also, span, err)
						}
						if !got.Contains(truth.Reading) {
							t.Fatalf("third nodes %v: %d lies, and %d in %d is %v by %v and %v, "+
								"truth %d", third, liar, from, into, got.Interval, got.LoPath,
								got.HiPath, truth.Reading)
						}
					}
				}
				for _, d := range c.Audit(10).Disagreements {
					if !slices.Contains(d.Nodes(), f.clocks[liar].node.Name) {
						t.Fatalf("%d lies, but others are named: %v", liar, d)
					}
				}
			}
		}
	})
	if falsified == 0 {
		t.Errorf("no lie moved other nodes' relations, in %d queries with each third node "+
			"believed: these lies try nothing", checked)
	} else {
		t.Logf("with each third node believed, %d of %d queries between honest nodes were "+
			"falsified", falsified, checked)
	}
}

// However a node lies, even differently at each moment, what is known about the other nodes stays
// true. Durations between the other nodes stay true, too. It makes no difference whether they are
// found singly, by views or in batches.
func TestAnyLieMovesOnlyItsOwn(t *testing.T) {
	const seconds = 12
	seed.For(t, 4, func(t *testing.T, rng *rand.Rand) {
		f := someFleet(t, rng, seconds)
		for liar := range f.clocks {
			var rs []*Relation
			var others []int
			for i := range f.clocks {
				if i != liar {
					others = append(others, i)
				}
				for j := range i {
					for _, into := range []Side{SideA, SideB} {
						if pair := f.pairs[[2]int{j, i}]; pair != nil {
							r := mustReturn(pair.Relate(into, f.w))(t)
							if i == liar || j == liar {
								r.garble(rng)
							}
							rs = append(rs, r)
						}
					}
				}
			}
			for _, third := range []ThirdNodes{ThirdAgreed, ThirdNone} {
				c := mustReturn(NewClosure(rs, third))(t)
				ways := map[[3]int]*Ways{}
				for range 300 {
					u := uint64((1 + rng.Float64()*(seconds-2)) * second)
					v := u + uint64(rng.Float64()*2000*microsecond)
					k := [3]int{others[rng.IntN(len(others))], others[rng.IntN(len(others))],
						others[rng.IntN(len(others))]}
					x, y := f.event(k[1], u), f.event(k[2], v)
					names := [3]string{f.clocks[k[0]].node.Name, x.Node, y.Node}
					if ways[k] == nil {
						ways[k] = mustReturn(c.Ways(names[0], names[1], names[2]))(t)
					}
					truth := f.clocks[k[0]].cyclesBetween(u, v)
					one, err := c.Duration(names[0], x, y)
					d, errWays := ways[k].Duration(x.Reading, y.Reading)
					if errors.Is(err, ErrNoPath) && errors.Is(errWays, ErrNoPath) {
						continue
					}
					if err := errors.Join(err, errWays); err != nil {
						t.Fatalf("third nodes %v: %d lies: %v", third, liar, err)
					}
					for what, d := range map[string]Duration{"duration": one, "by ways": d} {
						if truth+1 < d.Lo || truth-1 > d.Hi {
							t.Fatalf("third nodes %v: %d lies, and %s %v is %v %v, truth %d",
								third, liar, what, k, d.Scenario, d.Elapsed, truth)
						}
					}
					view, err := c.View(x.Node, y.Node)
					if errors.Is(err, ErrNoPath) {
						continue
					}
					for range 20 { // several nearby moments, in case a view caches something false
						at := u + rng.Uint64N(second/20)
						e, there := f.event(k[1], at), f.event(k[2], at)
						if got, _, err := view.Translate(e.Reading); err != nil ||
							!got.Contains(there.Reading) {
							t.Fatalf("third nodes %v: %d lies, and the view of %d in %d is %v, "+
								"truth %d, %v", third, liar, k[1], k[2], got, there.Reading, err)
						}
					}
				}
			}
		}
	})
}

// garble replaces each piece of a relation by a false piece that is as narrow as possible.
func (r *Relation) garble(rng *rand.Rand) {
	for i := range r.pieces {
		p := &r.pieces[i]
		p.lo = offset((p.lo+p.hi)/2, rng.Int64N(40_000)-20_000)
		p.hi, p.slopeHi = p.lo+1, p.slopeLo+1
	}
}

// Audit names a node that tells its peers different things, if the lies differ by more than the
// bounds. What is known about the other nodes stays true.
func TestAuditNamesLiar(t *testing.T) {
	const seconds = 8
	rng := seed.Random(t)
	for _, nodes := range []int{4, 5} {
		truthful := newFleet(rng, nodes, seconds, 1*PPM, 1, 0)
		truthful.measureAll(t, honestNetwork, 0.5, seconds-0.5)
		for liar := range nodes {
			f := truthful.copyFleet()
			// The lies to any two peers differ by at least 100,000 cycles, which is 30 µs or more.
			f.withLiar(t, liar, seconds, func(peer int) int64 { return int64(peer) * 100_000 })
			c := f.closure(t, ThirdAgreed)
			if got := c.Audit(5); !slices.Equal(got.Accused, []string{f.clocks[liar].node.Name}) {
				t.Errorf("%d of %d lies: %d disagreements, accused %v",
					liar, nodes, len(got.Disagreements), got.Accused)
			}
			for from := range nodes {
				for into := range nodes {
					e, truth := f.event(from, 4*second), f.event(into, 4*second)
					got, err := c.Translate(e.Node, truth.Node, e.Reading)
					if from != liar && into != liar && from != into &&
						(err != nil || !got.Contains(truth.Reading)) {
						t.Errorf("%d of %d lies, and %d in %d is %v, truth %d, %v",
							liar, nodes, from, into, got, truth.Reading, err)
					}
				}
			}
		}
	}
}

// Two nodes that were not measured with each other can be related only if two third nodes were
// measured with both.
func TestAgreementNeedsTwo(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 0))
	f := newFleet(rng, 4, 8, 1*PPM, 1, 0)
	for _, p := range [][2]int{{0, 2}, {1, 2}, {1, 3}} {
		f.measure(t, p[0], p[1], honestNetwork, 0.5, 7.5)
	}
	e, truth := f.event(0, 4*second), f.event(1, 4*second)
	for _, third := range []ThirdNodes{ThirdAgreed, ThirdNone} {
		c := f.closure(t, third)
		if _, err := c.Translate("a", "b", e.Reading); !errors.Is(err, ErrNoPath) {
			t.Errorf("third nodes %v, by one alone: %v", third, err)
		}
		if err := c.Related("a", "b"); !errors.Is(err, ErrNoPath) {
			t.Errorf("third nodes %v: related by one alone: %v", third, err)
		}
		if _, err := c.View("a", "b"); !errors.Is(err, ErrNoPath) {
			t.Errorf("third nodes %v: a view by one alone: %v", third, err)
		}
	}
	got := mustReturn(f.closure(t, ThirdAny).Translate("a", "b", e.Reading))(t)
	if !got.Contains(truth.Reading) || got.LoPath.String() != "a → c → b" {
		t.Errorf("%+v, truth %d", got, truth.Reading)
	}
	f.measure(t, 0, 3, honestNetwork, 0.5, 7.5)
	agreed := mustReturn(f.closure(t, ThirdAgreed).Translate("a", "b", e.Reading))(t)
	if !agreed.Contains(truth.Reading) || len(agreed.LoPath) != 3 || len(agreed.HiPath) != 3 {
		t.Errorf("%+v, truth %d", agreed, truth.Reading)
	}
	// Two third nodes prove two values for each end of the interval. The end must be the outer one
	// of the two values.
	over := func(via string) Interval {
		ab := f.closure(t, ThirdAny)
		first, second := mustReturn(ab.direct("a", via))(t), mustReturn(ab.direct(via, "b"))(t)
		return mustReturn(path{first, second}.count(first.From.counts(At(e.Reading))))(t)
	}
	x, y := over("c"), over("d")
	want := f.clocks[1].node.readings(Interval{min(x.Lo, y.Lo), max(x.Hi, y.Hi)})
	if agreed.Interval != want {
		t.Errorf("agreed %v, by either %v and %v", agreed.Interval, x, y)
	}

	// A suspect relation is not taken as a second proof.
	var rs []*Relation
	for _, p := range f.pairs {
		for _, into := range []Side{SideA, SideB} {
			r := mustReturn(p.Relate(into, f.w))(t)
			if p.B.Name == "d" {
				r.Verdict = Suspect
			}
			rs = append(rs, r)
		}
	}
	c := mustReturn(NewClosure(rs, ThirdAgreed))(t)
	if _, err := c.Translate("a", "b", e.Reading); !errors.Is(err, ErrNoPath) {
		t.Errorf("by one that is proven and one that is not: %v", err)
	}
}

func TestThirdNodesInWords(t *testing.T) {
	for _, third := range []ThirdNodes{ThirdAgreed, ThirdAny, ThirdNone} {
		var got ThirdNodes
		if text, err := third.MarshalText(); err != nil || got.UnmarshalText(text) != nil ||
			got != third {
			t.Errorf("%v as text is %q, and then %v", third, text, got)
		}
	}
	var got ThirdNodes
	if err := got.UnmarshalText([]byte("all")); err == nil ||
		fmt.Sprint(ThirdNodes(9)) != "third nodes 9" {
		t.Errorf("takes %v, %v", got, err)
	}
}
