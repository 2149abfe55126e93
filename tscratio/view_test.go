package tscratio

import (
	"errors"
	"math/rand/v2"
	"testing"

	"github.com/cloudprofiler/cloudprofiler/internal/seed"
)

// The answers of View and Ways contain the truth, agree with the closure's answers, and are hardly
// wider.
func TestWaysHoldTruth(t *testing.T) {
	seed.For(t, 4, func(t *testing.T, rng *rand.Rand) {
		quantum, slack := []uint64{1, 40}[rng.IntN(2)], []uint64{0, 60}[rng.IntN(2)]
		f := newFleet(rng, 4, 60, 1*PPM, quantum, slack)
		far, near := network{base: 40, asymmetry: 60, jitter: 5}, network{base: 3, jitter: 1}
		for p, net := range map[[2]int]network{{0, 1}: far, {0, 2}: near, {1, 2}: near,
			{2, 3}: near} {
			f.measure(t, p[0], p[1], net, 0.5, 59)
		}
		third := ThirdAny
		if rng.IntN(2) == 0 { // all pairs are related, and two third nodes narrow a and b
			third = ThirdAgreed
			f.measure(t, 0, 3, near, 0.5, 59)
			f.measure(t, 1, 3, near, 0.5, 59)
		}
		c := f.closure(t, third)
		ways := map[[3]int]*Ways{}
		views := map[[2]int]*View{}
		var wider, all, undecided int
		for range 4000 {
			u := uint64((1 + rng.Float64()*57) * second)
			v := u + uint64(rng.Float64()*3000*microsecond) - second/2000
			if rng.IntN(10) == 0 {
				v = uint64((1 + rng.Float64()*57) * second)
			}
			on, to, ref := rng.IntN(4), rng.IntN(4), rng.IntN(4)
			key := [3]int{ref, on, to}
			if ways[key] == nil {
				ways[key] = mustReturn(c.Ways(f.clocks[ref].node.Name, f.clocks[on].node.Name,
					f.clocks[to].node.Name))(t)
				views[[2]int{on, to}] = mustReturn(c.View(f.clocks[on].node.Name,
					f.clocks[to].node.Name))(t)
			}
			x, y := f.event(on, u), f.event(to, v)
			d, err := ways[key].Duration(x.Reading, y.Reading)
			want, wantErr := c.Duration(f.clocks[ref].node.Name, x, y)
			if err != nil || wantErr != nil {
				undecided++
				if wantErr == nil {
					t.Fatalf("%v and not an answer: the closure has %v", err, want)
				}
				continue
			}
			if truth := f.clocks[ref].cyclesBetween(u, v); truth+1 < d.Lo || truth-1 > d.Hi {
				t.Fatalf("%v from node %d to %d in cycles of %d: %v, truth %d",
					d.Scenario, on, to, ref, d.Elapsed, truth)
			}
			if !d.Intersect(want.Elapsed).Valid() || d.Verdict != want.Verdict {
				t.Fatalf("%v, the closure has %v", d, want)
			}
			all++
			if float64(d.Width()) > 1.2*float64(want.Width())+16 {
				wider++
			}
			i, _, err := views[[2]int{on, to}].Translate(x.Reading)
			closed := mustReturn(c.Translate(x.Node, f.clocks[to].node.Name, x.Reading))(t)
			if err != nil || !i.Intersect(closed.Interval).Valid() ||
				!i.Contains(f.clocks[to].read(u, 0)) && slack == 0 {
				t.Fatalf("view %v, closure %v, %v", i, closed, err)
			}
		}
		if wider > all/50 {
			t.Errorf("%d of %d durations are over 1.2 times as wide as the closure's", wider, all)
		}
		// Some durations have no answer, because not all pairs of nodes were measured.
		if undecided > all/2 {
			t.Errorf("%d durations were not decided, %d were", undecided, all)
		}
	})
}

// A batch gives the same intervals as durations that are found one by one.
func TestBatchesEqualSingleDurations(t *testing.T) {
	seed.For(t, 4, func(t *testing.T, rng *rand.Rand) {
		f := newFleet(rng, 4, 30, 1*PPM, []uint64{1, 40}[rng.IntN(2)], []uint64{0, 60}[rng.IntN(2)])
		far, near := network{base: 40, asymmetry: 60, jitter: 5}, network{base: 3, jitter: 1}
		for p, net := range map[[2]int]network{{0, 1}: far, {0, 2}: near, {1, 2}: near,
			{2, 3}: near} {
			f.measure(t, p[0], p[1], net, 0.5, 29)
		}
		third := ThirdAny
		if rng.IntN(2) == 0 {
			third = ThirdAgreed
			f.measure(t, 0, 3, near, 0.5, 29)
			f.measure(t, 1, 3, near, 0.5, 29)
		}
		c := f.closure(t, third)
		for range 40 {
			on, to, ref := rng.IntN(4), rng.IntN(4), rng.IntN(4)
			names := [3]string{f.clocks[ref].node.Name, f.clocks[on].node.Name,
				f.clocks[to].node.Name}
			one, many := mustReturn(c.Ways(names[0], names[1], names[2]))(t),
				mustReturn(c.Ways(names[0], names[1], names[2]))(t)
			var xs, ys []uint64
			at := uint64(second)
			for range 1500 {
				at += uint64(rng.Float64() * 15000 * microsecond)
				from := at
				if rng.IntN(50) == 0 { // sometimes a reading that is out of order
					from = uint64(rng.Float64() * 30 * second)
				}
				length := uint64(rng.Float64() * float64(uint64(second/1000000)<<rng.IntN(20)))
				xs, ys = append(xs, f.event(on, from).Reading),
					append(ys, f.event(to, from+length-min(from, second/5000)).Reading)
			}
			elapsed := make([]Elapsed, len(xs))
			for i := 0; i < len(xs); {
				n, d, err := many.Durations(xs[i:], ys[i:], elapsed[i:])
				if n < 1 {
					t.Fatalf("%d durations", n)
				}
				for k := i; k < i+n; k++ {
					want, wantErr := one.plainDuration(xs[k], ys[k])
					if (err != nil) != (wantErr != nil) ||
						err == nil && (elapsed[k] != want.Elapsed || d.Scenario != want.Scenario ||
							d.Verdict != want.Verdict) {
						t.Fatalf("pair %d of %d at once, from %s to %s in cycles of %s: %v %v "+
							"%v, %v; alone %v, %v", k-i, n, names[1], names[2], names[0],
							elapsed[k], d.Scenario, d.Verdict, err, want, wantErr)
					}
				}
				i += n
			}
		}
	})
}

func TestWaysOfNothing(t *testing.T) {
	seed.For(t, 1, func(t *testing.T, rng *rand.Rand) {
		f := newFleet(rng, 3, 10, 1*PPM, 1, 0)
		f.measure(t, 0, 1, network{base: 3, jitter: 1}, 0.5, 9)
		c := f.closure(t, ThirdAny)
		if _, err := c.Ways("a", "a", "nobody"); !errors.Is(err, ErrNoPath) {
			t.Error(err)
		}
		if _, err := c.View("nobody", "a"); !errors.Is(err, ErrNoPath) {
			t.Error(err)
		}
		w := mustReturn(c.Ways("a", "a", "b"))(t)
		for _, x := range []uint64{0, ^uint64(0)} {
			if _, err := w.Duration(x, x); err == nil {
				t.Errorf("a duration from %d", x)
			}
		}
	})
}

func BenchmarkWays(b *testing.B) {
	rng := rand.New(rand.NewPCG(1, 2))
	f := newFleet(rng, 3, 60, 1*PPM, 1, 0)
	t := &testing.T{}
	for _, p := range [][2]int{{0, 1}, {0, 2}, {1, 2}} {
		f.measure(t, p[0], p[1], network{base: 3, jitter: 1}, 0.5, 59)
	}
	c := f.closure(t, ThirdAny)
	for name, n := range map[string][3]int{"trivial": {0, 0, 0}, "same": {0, 1, 1},
		"two": {0, 0, 1}, "three": {0, 1, 2}} {
		b.Run(name, func(b *testing.B) {
			w, err := c.Ways(f.clocks[n[0]].node.Name, f.clocks[n[1]].node.Name,
				f.clocks[n[2]].node.Name)
			if err != nil {
				b.Fatal(err)
			}
			x, y := make([]uint64, 1<<14), make([]uint64, 1<<14)
			for i := range x {
				at := uint64((2 + 50*float64(i)/float64(len(x))) * second)
				x[i], y[i] = f.event(n[1], at).Reading, f.event(n[2], at+second/10000).Reading
			}
			b.Run("one", func(b *testing.B) {
				for i := 0; b.Loop(); i++ {
					if _, err := w.Duration(x[i%len(x)], y[i%len(x)]); err != nil {
						b.Fatal(err)
					}
				}
			})
			b.Run("many", func(b *testing.B) {
				elapsed := make([]Elapsed, len(x))
				for i := range x {
					at := uint64((2 + 0.1*float64(i)/float64(len(x))) * second)
					x[i], y[i] = f.event(n[1], at).Reading, f.event(n[2], at+second/10000).Reading
				}
				for i, k := 0, 0; i < b.N; {
					n, _, err := w.Durations(x[k:], y[k:], elapsed[k:])
					if err != nil {
						b.Fatal(err)
					}
					i += n
					k = (k + n) % len(x)
				}
			})
		})
	}
}
