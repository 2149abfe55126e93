package virtual

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/cloudprofiler/cloudprofiler/minrtt"
	"github.com/cloudprofiler/cloudprofiler/vnode"
)

var now = Physical{Counter: 1 << 50, Realtime_ns: 1_700_000_000e9, Hz: 2_600_000_000}

// Two nodes with the same share_ppm wander by at most that much, whatever their shapes, and some
// pairs by nearly that much.
func TestPairsWanderByTheirShare(t *testing.T) {
	const share_ppm = 0.5
	shapes := []vnode.Shape{vnode.Steady, vnode.Sine, vnode.Walk, vnode.Temperature}
	most := uint64(0)
	for seed := range uint64(8) {
		r := rand.New(rand.NewPCG(seed, 1))
		var truths [2]*vnode.Truth
		for i := range truths {
			c := Config(r, "n", now, shapes[r.IntN(len(shapes))], share_ppm, 10*time.Minute)
			if err := c.Validate(); err != nil {
				t.Fatalf("seed %d: %v", seed, err)
			}
			var err error
			if truths[i], err = vnode.NewTruth(c.Counter); err != nil {
				t.Fatal(err)
			}
		}
		// A window of the relation is 20 s of the node's own counter, which runs up to 50 ppm too
		// fast. So the window has fewer physical cycles than 20 s.
		w := vnode.PairWander_2e40(truths[0], truths[1], 20*now.Hz*9999/10000)
		if w > uint64(vnode.PPM(share_ppm)) {
			t.Errorf("seed %d: the pair wanders by %d, more than %d", seed, w, vnode.PPM(share_ppm))
		}
		most = max(most, w)
	}
	if most < uint64(vnode.PPM(share_ppm/2)) {
		t.Errorf("no pair wanders by more than %d of %d: the share is not used",
			most, vnode.PPM(share_ppm))
	}
}

// Each clock of the node differs from the physical one, and adjtime shows a slew while it lasts.
func TestClock(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 1))
	c := Config(r, "n", now, vnode.Sine, 1, 10*time.Minute)
	c.Realtime.Steps = []vnode.RealtimeStep{{At_ns: now.Realtime_ns + 9e9, By_ns: -1e9}}
	at := now.Realtime_ns
	clock, err := Clock(c, minrtt.Clock{
		Counter:  func() uint64 { return now.Counter + uint64(at-now.Realtime_ns)*26/10 },
		Realtime: func() int64 { return at },
		Bracket: func() (uint64, int64, uint64) {
			c := now.Counter + uint64(at-now.Realtime_ns)*26/10
			return c, at, c + 50
		},
		RealtimeStep: func() (uint32, error) { return 1, nil },
		Discipline: func() (minrtt.Discipline, error) {
			return minrtt.Discipline{Tick_us: 10_000},
				nil
		},
		Steps: func() (uint64, error) { return 3, nil },
	})
	if err != nil {
		t.Fatal(err)
	}
	if got := clock.Counter(); got != c.Counter.Start {
		t.Errorf("the counter begins at %d, want %d", got, c.Counter.Start)
	}
	if got := clock.Realtime() - at; got != c.Realtime.Offset_ns {
		t.Errorf("the clock is off by %d, want %d", got, c.Realtime.Offset_ns)
	}
	if before, t_ns, after := clock.Bracket(); before != clock.Counter() ||
		t_ns != clock.Realtime() || after-before < 49 || after-before > 51 {
		t.Errorf("bracket %d, %d, %d; the counter stands at %d, the clock at %d",
			before, t_ns, after, clock.Counter(), clock.Realtime())
	}
	slewing, calm := 0, 0
	for ; at < now.Realtime_ns+8e9; at += 1e8 {
		d, err := clock.Discipline()
		if err != nil {
			t.Fatal(err)
		}
		if d.Frequency_ppm16 != c.Realtime.Adjustments[0].Freq {
			t.Fatalf("frequency %d, want %d", d.Frequency_ppm16, c.Realtime.Adjustments[0].Freq)
		}
		if d.Adjust_us != 0 {
			slewing++
		} else {
			calm++
		}
	}
	if slewing == 0 || calm == 0 {
		t.Errorf("%d readings while it slews, %d while it does not: want some of both",
			slewing, calm)
	}
	if steps, _ := clock.Steps(); steps != 3 {
		t.Errorf("%d steps before the clock was set, want the physical clock's 3", steps)
	}
	if at += 2e9; clock.KernelStamp(at) != clock.Realtime() {
		t.Error("a kernel stamp is not what the clock showed")
	}
	if steps, _ := clock.Steps(); steps != 4 {
		t.Errorf("%d steps after the clock was set, want 4", steps)
	}
}

// If the physical clocks lack the functions that kernel stamps need, the virtual clocks lack them,
// too.
func TestClockOfACounterAlone(t *testing.T) {
	clock, err := Clock(vnode.DefaultConfig(), minrtt.Clock{Counter: func() uint64 { return 7 }})
	if err != nil || clock.Realtime != nil || clock.Counter() != 7 {
		t.Errorf("clock %+v, %v", clock, err)
	}
	if _, err := Clock(vnode.Config{}, minrtt.Clock{}); err == nil {
		t.Error("a configuration of nothing makes a clock")
	}
}

// When the physical counter moves by one step, the virtual counter moves by at most its quantum.
func TestQuantum(t *testing.T) {
	r := rand.New(rand.NewPCG(2, 2))
	for _, step_cycles := range []uint64{1, 26, 1000, 1 << 20} {
		c := Config(r, "n", now, vnode.Walk, 1, 10*time.Minute)
		n, err := vnode.New(c)
		if err != nil {
			t.Fatal(err)
		}
		quantum_cycles, most := Quantum_cycles(c.Counter, step_cycles), uint64(0)
		for range 10_000 {
			at := now.Counter + r.Uint64N(1<<40)
			most = max(most, n.Counter.Virtual(at+step_cycles)-n.Counter.Virtual(at))
		}
		if most+1 > quantum_cycles || quantum_cycles > most+4+most/50 {
			t.Errorf("steps of %d are up to %d virtual cycles and one, quantum %d",
				step_cycles, most, quantum_cycles)
		}
	}
}
