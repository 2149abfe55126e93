package tscratio

import (
	"errors"
	"math/rand/v2"
	"reflect"
	"testing"
	"time"

	"github.com/cloudprofiler/cloudprofiler/internal/seed"
)

// turnedPair returns p as the other node would have gathered it.
func turnedPair(t *testing.T, p *Pair) *Pair {
	t.Helper()
	q := mustReturn(NewPair(p.B, p.A, p.Declared))(t)
	for k := range p.Kept() {
		tr := Train{By: StartedByA + StartedByB - k.By, Stamps: k.Stamps}
		if k.Whole {
			tr.Exchanges = []Exchange{k.Best}
		}
		for _, c := range k.Constraints {
			tr.OneWay = append(tr.OneWay, Constraint{Kind: Upper - c.Kind, B: c.A, A: c.B})
		}
		if err := q.Add(tr); err != nil {
			t.Fatal(err)
		}
	}
	return q
}

// If each of two nodes has measured the other, the merged pair gives the same answers, whichever
// node it calls A.
func TestMergeOfBothNodesPairs(t *testing.T) {
	seed.For(t, 10, func(t *testing.T, rng *rand.Rand) {
		x := newWorld(rng, 30, sine, 400*PPB, 10*time.Second, 26, 50)
		x.net = networks["lossy"]
		whole := x.pair(t, declared(1*PPM), 4, 0.5)
		n := uint64(len(whole.trains))
		early, late := whole.Split(whole.trains[n/2].b.Lo - 1)
		if early.Trains()+late.Trains() != whole.Trains() {
			t.Fatalf("%d and %d trains of %d", early.Trains(), late.Trains(), whole.Trains())
		}
		if err := early.Merge(turnedPair(t, late)); err != nil {
			t.Fatal(err)
		}
		if got, want := early.Constraints(), whole.Constraints(); got != want {
			t.Errorf("%d constraints, want %d", got, want)
		}
		for _, into := range []Side{SideA, SideB} {
			got, want := mustReturn(early.Relate(into, PPM))(t),
				mustReturn(whole.Relate(into, PPM))(t)
			if !reflect.DeepEqual(got.Knots(), want.Knots()) || got.Least != want.Least ||
				got.Limits() != want.Limits() {
				t.Errorf("into side %d: another relation", into)
			}
		}
		for i, tr := range early.trains {
			if tr.by != whole.trains[i].by {
				t.Fatalf("train %d was started by %d, want %d", i, tr.by, whole.trains[i].by)
			}
		}
		if again := mustReturn(DecodePair(early.Encode()))(t); !reflect.DeepEqual(again.trains,
			early.trains) {
			t.Error("a merged pair is stored as another one")
		}
	})
}

func TestMergeRefuses(t *testing.T) {
	for name, tc := range map[string]struct {
		change func(q *Pair)
		want   error
	}{
		"another epoch":       {func(q *Pair) { q.B.Epoch = "later" }, ErrEpoch},
		"another node":        {func(q *Pair) { q.B.Name = "c" }, ErrAssumption},
		"another quantum":     {func(q *Pair) { q.A.Quantum_cycles++ }, ErrAssumption},
		"pruned for less":     {func(q *Pair) { q.Declared.MaxWander-- }, ErrAssumption},
		"with another window": {func(q *Pair) { q.Declared.Window *= 2 }, ErrAssumption},
		"turned, other epochs": {func(q *Pair) { q.A, q.B = q.B, q.A; q.A.Epoch = "later" },
			ErrEpoch},
	} {
		p, q := smallPair(t), smallPair(t)
		tc.change(q)
		if err := p.Merge(q); !errors.Is(err, tc.want) {
			t.Errorf("%s: %v, want %v", name, err, tc.want)
		}
		if p.Trains() != 2 {
			t.Errorf("%s: refused, and %d trains", name, p.Trains())
		}
	}
}

func TestKeptShowsWhatPruningLeft(t *testing.T) {
	rng := rand.New(rand.NewPCG(7, 0))
	x := newWorld(rng, 30, still, 0, 10*time.Second, 1, 0)
	x.net = networks["near and steady"]
	p := x.pair(t, declared(1*PPM), 5, 0.5)
	gathered := p.Constraints()
	dropped := p.Prune()
	if dropped == 0 {
		t.Fatal("nothing was pruned")
	}
	var sumGathered, sumKept, exchanges int
	for k := range p.Kept() {
		sumGathered += k.Gathered
		sumKept += len(k.Constraints)
		exchanges += k.Exchanges
		for _, c := range k.Constraints {
			if !k.B.Contains(c.B) || !k.A.Contains(c.A) {
				t.Fatalf("constraint %+v outside of its train from %v", c, k.B)
			}
		}
	}
	if sumGathered != gathered || sumKept != gathered-dropped || exchanges != 5*p.Trains() {
		t.Errorf("gathered %d kept %d exchanges %d, want %d, %d, %d",
			sumGathered, sumKept, exchanges, gathered, gathered-dropped, 5*p.Trains())
	}
}
