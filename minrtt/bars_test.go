package minrtt

import (
	"errors"
	"math/rand/v2"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/cloudprofiler/cloudprofiler/internal/proof"
	"github.com/cloudprofiler/cloudprofiler/internal/seed"
	"github.com/cloudprofiler/cloudprofiler/tscratio"
	"github.com/cloudprofiler/cloudprofiler/vnode"
)

// TestBarVirtualRealtime tests everything from kernel stamps to a bound, in virtual time. Each of
// two nodes has a counter that wanders, and a CLOCK_REALTIME that is steered, slewed and set. The
// nodes exchange trains over a network that delays and loses packets. The resulting relation
// translates readings at random moments, and each bound must contain the exact truth.
func TestBarVirtualRealtime(t *testing.T) {
	size := proof.Begin(t)
	seeds, queries, wanted := 10, 5_000, 50_000.0
	if size == proof.Full {
		seeds, queries, wanted = 200, 20_000, 4_000_000
	}
	var mu sync.Mutex
	var total simulatedPair
	var halves []float64
	numbers := seed.Numbers(t, seeds)
	work := make(chan uint64)
	var all sync.WaitGroup
	for range runtime.GOMAXPROCS(0) {
		all.Go(func() {
			for number := range work {
				s := simulateNodes(t, rand.New(rand.NewPCG(number, 5)), queries)
				mu.Lock()
				total.asked, total.outside = total.asked+s.asked, total.outside+s.outside
				total.trains, total.set, total.kernel = total.trains+s.trains, total.set+s.set,
					total.kernel+s.kernel
				halves = append(halves, s.half_us)
				mu.Unlock()
				if s.outside > 0 || s.asked < queries {
					t.Errorf("%d of %d outside, %d wanted: again with %s=%d",
						s.outside, s.asked, queries, seed.Variable, number)
				}
			}
		})
	}
	for _, number := range numbers {
		work <- number
	}
	close(work)
	all.Wait()
	t.Logf("%d trains, %d of them with a clock that was set, %d exchanges wholly by kernel stamps",
		total.trains, total.set, total.kernel)
	if total.set == 0 || total.kernel < 4*(total.trains-total.set) {
		t.Errorf("the simulation sets no clocks or uses no kernel stamps: %+v", total)
	}
	proof.Check(t,
		proof.Bar{Name: "queries of virtual clocks", Figure: float64(total.asked), Limit: wanted,
			AtLeast: true, Unit: "queries"},
		proof.Bar{Name: "truths of virtual clocks outside of their bounds",
			Figure: float64(total.outside), Unit: "queries"},
		proof.Bar{Name: "half-width of virtual clocks, delays of 2 µs and more", Limit: 2.8,
			Unit: "µs"}.From(halves),
	)
}

// simulatedPair is the result of simulating one pair of nodes.
type simulatedPair struct {
	trains, set, kernel int
	asked, outside      int
	half_us             float64
}

// simulatedSeconds is the length of the virtual time for which a pair of nodes is simulated.
const simulatedSeconds = 40

// simulateNodes simulates a pair of nodes.
func simulateNodes(t *testing.T, r *rand.Rand, queries int) (out simulatedPair) {
	w := []tscratio.Wander{100 * tscratio.PPB, 1 * tscratio.PPM}[r.IntN(2)]
	f := kernelPair(t)
	f.now = time.Second
	var truths [2]*vnode.Truth
	var nodes [2]tscratio.Node
	for i, e := range []*fakeEnd{f.prober, f.answerer} {
		c := steeredNode(r, w)
		v, err := newVirtual(c)
		if err != nil {
			t.Error(err)
			return out
		}
		if truths[i], err = vnode.NewTruth(c.Counter); err != nil {
			t.Error(err)
			return out
		}
		e.virtual = v
		// The fake kernel takes stamps from the physical clock.
		e.realtime = func(at time.Duration) int64 { return fakeBegin + int64(at) }
		nodes[i] = tscratio.Node{Name: string(rune('a' + i)), Epoch: "1", Nominal_hz: 2_600_000_000,
			Quantum_cycles: v.quantum + 1}
	}
	f.p.clock, f.a.clock = f.prober.clock(), f.answerer.clock()
	f.route = func(*fakeEnd, []byte) []time.Duration {
		if r.IntN(50) == 0 {
			return nil
		}
		return []time.Duration{2*time.Microsecond + time.Duration(r.ExpFloat64()*1500)}
	}
	declared := tscratio.DefaultAssumptions()
	declared.Wander, declared.MaxWander = w, 16*w
	pair, err := tscratio.NewPair(nodes[0], nodes[1], declared)
	if err != nil {
		t.Error(err)
		return out
	}
	var first, last time.Duration
	for at := f.now; at < simulatedSeconds*time.Second; at += time.Second / 2 {
		f.now = max(f.now, at)
		for _, e := range []*fakeEnd{f.prober, f.answerer} {
			e.wake = time.Duration(r.Int64N(60_000))
		}
		out.trains++
		train, err := f.p.Train(t.Context())
		switch {
		case errors.Is(err, ErrClockSet):
			out.set++
			continue
		case errors.Is(err, ErrNoAnswer):
			continue
		case err != nil:
			t.Error(err)
			return out
		}
		got := tscratio.Train{By: tscratio.StartedByA, Exchanges: train.Best()}
		for _, a := range train.Arrivals {
			got.OneWay = append(got.OneWay, a.Constraint(tscratio.StartedByA))
		}
		if err := pair.Add(got); err != nil {
			t.Error(err)
			return out
		}
		for _, e := range train.Exchanges {
			if sourcesOf(e) == allKernel {
				out.kernel++
			}
		}
		if last = f.now; first == 0 {
			first = f.now
		}
	}
	var width float64
	for to, into := range []tscratio.Side{tscratio.SideA, tscratio.SideB} {
		relation, err := pair.Relate(into, w)
		if err != nil {
			t.Error(err)
			return out
		}
		for range queries / 2 {
			physical := f.prober.virtual.physical(first +
				time.Duration(r.Int64N(int64(last-first))))
			got, err := relation.Translate(truths[1-to].Reading(physical))
			if err != nil {
				t.Error(err)
				return out
			}
			out.asked++
			if !got.Contains(truths[to].Reading(physical)) {
				out.outside++
			}
			width += float64(got.Width())
		}
	}
	out.half_us = width / float64(out.asked) / 2 / 2600
	return out
}

// steeredNode returns a node with clocks that change, during the simulated time, in every way in
// which clocks can change.
func steeredNode(r *rand.Rand, w tscratio.Wander) vnode.Config {
	c := vnode.DefaultConfig()
	c.Counter.Origin = 1 << 40
	c.Counter.Start = r.Uint64() >> 2
	c.Counter.Rate_2e40 = vnode.PPM(r.Float64()*100 - 50)
	c.Counter.Quantum_cycles = []uint64{1, 26, 100}[r.IntN(3)]
	c.Counter.Wander = vnode.WanderConfig{
		Shape:         []vnode.Shape{vnode.Sine, vnode.Walk, vnode.Temperature}[r.IntN(3)],
		Limit_2e40:    vnode.PPM(w.PPM()/2) - 2,
		Window_cycles: 21 * 2_600_000_000, SegmentLog2: 28, Segments: 700,
		Period_cycles: uint64(8+r.IntN(30)) * 2_600_000_000,
		Settle_cycles: 3 * 2_600_000_000, Seed: r.Uint64(),
	}
	rt := &c.Realtime
	rt.Origin_ns = fakeBegin
	rt.Offset_ns = r.Int64N(2e12) - 1e12
	// Each second brings a change, at a random moment. Some of the changes fall into the 1 ms
	// around a train.
	slewing := int64(0) // the end of the last slew
	for second := int64(1); second < simulatedSeconds; second++ {
		at := fakeBegin + second*1e9 + r.Int64N(1e9)
		if r.IntN(3) > 0 {
			at = fakeBegin + second*1e9 + r.Int64N(600_000)
		}
		switch r.IntN(8) {
		case 0:
			rt.Adjustments = append(rt.Adjustments,
				vnode.Adjustment{At_ns: at, Freq: r.Int64N(1000<<16) - 500<<16, Tick_us: 10_000})
		case 1:
			rt.Adjustments = append(rt.Adjustments,
				vnode.Adjustment{At_ns: at, Tick_us: 9_500 + r.Int64N(1000)})
		case 2:
			// The kernel slews for whole seconds, and one slew at a time. So leave out a slew that
			// would begin before another one ends. No slew may begin and end within one train. A
			// train takes up to half a second if packets get lost, so slews must be longer.
			if at < slewing {
				continue
			}
			offset_ns := 350_000 + r.Int64N(150_000)
			slewing = at + offset_ns*2000
			rt.Slews = append(rt.Slews,
				vnode.Slew{At_ns: at, Offset_ns: offset_ns * (1 - 2*r.Int64N(2)), Rate_ppm: 500})
		case 3:
			rt.Steps = append(rt.Steps,
				vnode.RealtimeStep{At_ns: at, By_ns: r.Int64N(2_000_000) - 1_000_000})
		}
	}
	return c
}
