package minrtt

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/cloudprofiler/cloudprofiler/internal/seed"
	"github.com/cloudprofiler/cloudprofiler/tscratio"
	"github.com/cloudprofiler/cloudprofiler/vnode"
)

// virtualClocks are a virtual node's clocks on the fake net. They are functions of a physical
// counter of 2.6 GHz, and of a physical clock that shows the net's time.
type virtualClocks struct {
	counter  *vnode.Counter
	realtime *vnode.Realtime
	exact    *vnode.Counter // the same counter, with a quantum of 1
	quantum  uint64
}

func (v *virtualClocks) physical(at time.Duration) uint64 { return 1<<40 + uint64(at)*26/10 }

// clockOf returns the virtual node's clocks in the form that minrtt uses.
func (v *virtualClocks) clockOf(e *fakeEnd) Clock {
	now := func() int64 { return fakeBegin + int64(e.net.now) }
	return Clock{
		Counter:        e.counter,
		Quantum_cycles: v.quantum,
		Realtime: func() int64 {
			e.net.now += fakeRead
			return v.realtime.Virtual(now())
		},
		// The physical clock is rounded down to ns. The virtual clock moves by up to 1.11 ns for
		// each ns of the physical clock, and is rounded down again.
		RealtimeStep: func() (uint32, error) { return 3, nil },
		Discipline: func() (Discipline, error) {
			x := v.realtime.Timex(now(), vnode.Timex{Tick_us: 10_000})
			// A slew moves the clock as adjtime does, at up to 500 ppm. The remaining correction is
			// rounded away from 0 to whole µs, so that it is not 0 before the slew ends.
			adjust := (x.Offset_ns + 999) / 1000
			if x.Offset_ns < 0 {
				adjust = (x.Offset_ns - 999) / 1000
			}
			return Discipline{Frequency_ppm16: x.Freq, Tick_us: x.Tick_us, Adjust_us: adjust}, nil
		},
		Steps:       func() (uint64, error) { return uint64(v.realtime.Stepped(0, now())), nil },
		KernelStamp: v.realtime.Virtual,
	}
}

// newVirtualClocks makes clocks that change near a given moment: their rate changes by any amount
// that the kernel allows, a slew begins or ends, or the clock is set.
func newVirtualClocks(t *testing.T, r *rand.Rand, around time.Duration) *virtualClocks {
	t.Helper()
	quantum := []uint64{1, 26, 1000}[r.IntN(3)]
	c := vnode.DefaultConfig()
	c.Counter.Origin = 1 << 40
	c.Counter.Start = r.Uint64() >> 2
	c.Counter.Rate_2e40 = vnode.PPM(r.Float64()*200 - 100)
	shapes := []vnode.Shape{vnode.Steady, vnode.Sine, vnode.Walk, vnode.Temperature}
	c.Counter.Wander = vnode.WanderConfig{
		Shape:         shapes[r.IntN(len(shapes))],
		Limit_2e40:    vnode.PPM(1),
		Window_cycles: 26e9, SegmentLog2: 28, Segments: 64, Period_cycles: 1 << 30,
		Settle_cycles: 1 << 30, Seed: r.Uint64(),
	}
	near := func() int64 { return fakeBegin + int64(around) + r.Int64N(1_000_000) - 300_000 }
	c.Realtime.Origin_ns = fakeBegin - 1e9
	c.Realtime.Offset_ns = r.Int64N(2e12) - 1e12
	switch r.IntN(6) {
	case 0:
		c.Realtime.Adjustments = []vnode.Adjustment{{At_ns: near(),
			Freq: r.Int64N(2*500<<16) - 500<<16, Tick_us: 10_000}}
	case 1:
		c.Realtime.Adjustments = []vnode.Adjustment{{At_ns: near(), Tick_us: 9000 + r.Int64N(2000)}}
	case 2:
		c.Realtime.Slews = []vnode.Slew{{At_ns: near(), Offset_ns: (1 + r.Int64N(1000)) * 1_000_000,
			Rate_ppm: 500}}
	case 3: // a slew that ends at that moment
		length := int64(10_000_000)
		c.Realtime.Slews = []vnode.Slew{{At_ns: near() - length, Offset_ns: -length / 2000,
			Rate_ppm: 500}}
	case 4:
		c.Realtime.Steps = []vnode.RealtimeStep{{At_ns: near(), By_ns: r.Int64N(100_000) - 50_000}}
	}
	c.Counter.Quantum_cycles = quantum
	v, err := newVirtual(c)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// newVirtual returns the clocks that a configuration describes.
func newVirtual(c vnode.Config) (v *virtualClocks, err error) {
	v = &virtualClocks{quantum: c.Counter.Quantum_cycles}
	if v.counter, err = vnode.NewCounter(c.Counter); err != nil {
		return nil, err
	}
	c.Counter.Quantum_cycles = 1
	if v.exact, err = vnode.NewCounter(c.Counter); err != nil {
		return nil, err
	}
	v.realtime, err = vnode.NewRealtime(c.Realtime)
	return v, err
}

// In these trains, virtual nodes have different counters, and clocks that change in the middle of a
// train. Still, every result of the train is true: the interval of each kernel stamp contains the
// exact count, and each user stamp lies on the correct side of the exact count.
func TestTrainHoldsTheTruthOfVirtualNodes(t *testing.T) {
	r := seed.Random(t)
	const trains = 1500
	var kept, kernel, set int
	for range trains {
		f := kernelPair(t)
		f.now = time.Duration(1e9 + r.Int64N(2e9))
		for _, e := range f.ends() {
			e.wake = time.Duration(r.Int64N(100_000))
			v := newVirtualClocks(t, r, f.now)
			e.virtual = v
			// The fake kernel takes stamps from the physical clock.
			e.realtime = func(at time.Duration) int64 { return fakeBegin + int64(at) }
		}
		f.p.clock, f.a.clock = f.prober.clock(), f.answerer.clock()
		tr, err := f.p.Train(t.Context())
		if err != nil {
			set++ // the numbers below show that ErrClockSet is the only error here
			continue
		}
		for _, e := range tr.Exchanges {
			kept++
			if sourcesOf(e) == allKernel.expectedSources(e) {
				kernel++
			}
			f.virtualTruth(t, e)
		}
		if t.Failed() {
			return
		}
	}
	if kept != 6*(trains-set) || kernel < kept*9/10 || set == 0 || set > trains/2 {
		t.Errorf("%d trains: %d exchanges, %d with kernel stamps; %d trains with a clock set",
			trains, kept, kernel, set)
	}
}

func (f *fakePair) virtualTruth(t *testing.T, e Exchange) {
	t.Helper()
	for _, x := range []struct {
		name string
		from Source
		best tscratio.Interval
		user tscratio.Interval
		end  *fakeEnd
		at   time.Duration
		left bool // the user stamp is before the kernel's stamp; false: after
	}{
		{"sent", e.Sent, e.Best.Sent, e.User.Sent, f.prober, f.prober.trueSent[e.Sequence], true},
		{"received", e.Received, e.Best.Received, e.User.Received, f.answerer,
			f.answerer.trueReceived[e.Sequence], false},
		{"answered", e.Answered, e.Best.Answered, e.User.Answered, f.answerer,
			f.answerer.trueSent[e.Sequence], true},
		{"returned", e.Returned, e.Best.Returned, e.User.Returned, f.prober,
			f.prober.trueReceived[e.Sequence], false},
	} {
		v := x.end.virtual
		truth := v.exact.Virtual(v.physical(x.at)) // rounded down
		// A reading may be up to a quantum below the exact count. minrtt's intervals leave this
		// out, because tscratio adds the quantum.
		if x.from == Kernel && (x.best.Lo > truth+1 || x.best.Hi+v.quantum < truth) {
			t.Errorf("exchange %d: %s in %v, in truth at %d", e.Sequence, x.name, x.best, truth)
		}
		if x.left && x.user.Lo > truth+1 || !x.left && x.user.Hi+v.quantum < truth {
			t.Errorf("exchange %d: %s at %v on the wrong side of %d",
				e.Sequence, x.name, x.user, truth)
		}
	}
}
