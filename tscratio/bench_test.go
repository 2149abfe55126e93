package tscratio

import (
	"math/rand/v2"
	"testing"
	"time"
)

// hourOfTrains returns an hour of trains, two a second. Each has one exchange to warm up and five
// more.
func hourOfTrains(tb testing.TB) (*world, *Pair) {
	rng := rand.New(rand.NewPCG(7, 7))
	x := newWorld(rng, 3600, sine, 500*PPB, 10*time.Second, 1, 0)
	x.net = networks["kernel stamps"]
	return x, x.pair(tb, declared(1*PPM), 6, 0.5)
}

func BenchmarkRelateHour(b *testing.B) {
	_, p := hourOfTrains(b)
	for b.Loop() {
		mustReturn(p.Relate(SideA, 1*PPM))(b)
	}
}

func BenchmarkTranslate(b *testing.B) {
	x, p := hourOfTrains(b)
	r := mustReturn(p.Relate(SideA, 1*PPM))(b)
	const n = 1 << 16
	inOrder, random := make([]uint64, n), make([]uint64, n)
	for i := range n {
		inOrder[i] = x.b.count(uint64(i) * (3599 * second / n))
	}
	for i := range random {
		random[i] = inOrder[x.rng.IntN(n)] + x.rng.Uint64N(1e7)
	}
	b.Run("cursor", func(b *testing.B) {
		b.ReportAllocs()
		c := r.Cursor()
		i := 0
		for b.Loop() {
			if _, err := c.Translate(inOrder[i%n]); err != nil {
				b.Fatal(err)
			}
			i++
		}
	})
	b.Run("random", func(b *testing.B) {
		b.ReportAllocs()
		i := 0
		for b.Loop() {
			if _, err := r.Translate(random[i%n]); err != nil {
				b.Fatal(err)
			}
			i++
		}
	})
}
