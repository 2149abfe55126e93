package tscratio

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/cloudprofiler/cloudprofiler/internal/seed"
)

// A pair that is cut into parts and joined again is the same pair.
func TestSinceAndJoin(t *testing.T) {
	rng := rand.New(rand.NewPCG(seed.Of(t), 0))
	x := newWorld(rng, 20, sine, 400*PPB, 10*time.Second, 26, 50)
	x.net = networks["lossy"]
	whole := x.pair(t, declared(1*PPM), 6, 0.5)
	joined := mustReturn(NewPair(whole.A, whole.B, whole.Declared))(t)
	for at := 0; at < whole.Trains(); {
		next := min(whole.Trains(), at+1+rng.IntN(4))
		part := whole.Since(at)
		part.trains = part.trains[:next-at]
		part = mustReturn(DecodePair(part.Encode()))(t)
		part.A.CoreSlack_cycles = uint64(rng.IntN(50)) // the widest of all parts applies
		if err := joined.Join(part); err != nil {
			t.Fatal(err)
		}
		at = next
	}
	if !bytes.Equal(joined.Encode(), whole.Encode()) {
		t.Error("the joined parts are another pair")
	}
	wider := whole.Since(whole.Trains())
	wider.B.Quantum_cycles = 1000
	if err := joined.Join(wider); err != nil || joined.B.Quantum_cycles != 1000 ||
		joined.Trains() != whole.Trains() {
		t.Errorf("a wider quantum: %v, %+v", err, joined.B)
	}
	other := whole.Since(0)
	other.A.Epoch = "another"
	if err := joined.Join(other); !errors.Is(err, ErrAssumption) {
		t.Errorf("another epoch: %v", err)
	}
	other = whole.Since(0)
	other.Declared.Wander *= 2
	if err := joined.Join(other); !errors.Is(err, ErrAssumption) {
		t.Errorf("other assumptions: %v", err)
	}
}

// KeepNewest keeps the trains with the latest readings, in whatever order they were added.
func TestKeepNewest(t *testing.T) {
	rng := rand.New(rand.NewPCG(seed.Of(t), 0))
	x := newWorld(rng, 20, sine, 400*PPB, 10*time.Second, 26, 50)
	x.net = networks["lossy"]
	whole := x.pair(t, declared(1*PPM), 6, 0.5)
	rng.Shuffle(whole.Trains(), func(i, j int) {
		whole.trains[i], whole.trains[j] = whole.trains[j], whole.trains[i]
	})
	ends := func(p *Pair) (all []uint64) {
		for _, t := range p.trains {
			all = append(all, t.b.Hi)
		}
		return all
	}
	const large = 1 << 30
	for _, test := range []struct{ trains, bytes int }{
		{5, large}, {1, large}, {0, 0}, {large, 3000}, {large, large}, {8, 2000},
	} {
		p := whole.Since(0)
		p.KeepNewest(test.trains, test.bytes)
		n, size := p.Trains(), len(p.Encode())
		if got := p.EncodedBytes(); got != size {
			t.Errorf("%v: EncodedBytes() = %d, want %d", test, got, size)
		}
		if n > 1 && (n > test.trains || size > test.bytes) {
			t.Errorf("%v: %d trains, %d bytes", test, n, size)
		}
		left := ends(whole)
		slices.Sort(left)
		newest := ends(p)
		slices.Sort(newest)
		if !slices.Equal(newest, left[len(left)-n:]) {
			t.Errorf("%v: the %d trains are not the newest", test, n)
		}
		if n < whole.Trains() && n < test.trains {
			more := whole.Since(0)
			more.KeepNewest(n+1, large)
			if got := len(more.Encode()); got <= test.bytes {
				t.Errorf("%v: %d trains, but %d have only %d bytes", test, n, n+1, got)
			}
		}
		at := 0
		for _, e := range ends(p) {
			found := slices.Index(ends(whole)[at:], e)
			if found < 0 {
				t.Fatalf("%v: the order has changed", test)
			}
			at += found + 1
		}
	}
}
