package minrtt

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/cloudprofiler/cloudprofiler/internal/seed"
	"github.com/cloudprofiler/cloudprofiler/tscratio"
)

// A simulatedClock is a clock that several nodes of a fake net read. Its rate differs from that of
// the net's time, and wanders.
type simulatedClock struct {
	offset_ns, rate, swing float64 // the rate is rate·(1 ± swing)
	period_ns              float64
	step_ns                float64 // the clock moves in such steps
}

func (c simulatedClock) at(at time.Duration) int64 {
	x := float64(at)
	ns := c.offset_ns + c.rate*(x+c.swing*c.period_ns*math.Sin(x/c.period_ns))
	return int64(math.Floor(ns/c.step_ns) * c.step_ns)
}

// addSharedClock makes a node read a clock, with a different delay each time. The reading is wrong
// by up to error_ns.
func (e *fakeEnd) addSharedClock(r *rand.Rand, name string, wander float64, step_ns, error_ns int64,
	clock func(at time.Duration) int64) *SharedClock {
	return &SharedClock{
		Name: name, Wander_ppb: uint32(math.Ceil(wander * 1e9)),
		Step_ns: uint32(step_ns + 2*error_ns),
		Read: func() (before_cycles uint64, clock_ns int64, after_cycles uint64, ok bool) {
			before_cycles = e.counter()
			e.net.now += time.Duration(r.Int64N(3000))
			// The result is a reading minus error_ns, so that it never exceeds what the clock
			// shows.
			clock_ns = clock(e.net.now) + r.Int64N(2*error_ns+1) - 2*error_ns
			e.net.now += time.Duration(r.Int64N(3000))
			return before_cycles, clock_ns, e.counter(), true
		},
	}
}

// checkMeetings fails the test if one of the meetings is false. A meeting is true if there is a
// moment at which each node's counter is within its interval.
func (f *fakePair) checkMeetings(t *testing.T, ms []Meeting) {
	t.Helper()
	for i, m := range ms {
		const rounding = 2 * time.Nanosecond
		if f.timeOf(f.prober, m.Own.Lo) > f.timeOf(f.answerer, m.Peer.Hi)+rounding ||
			f.timeOf(f.answerer, m.Peer.Lo) > f.timeOf(f.prober, m.Own.Hi)+rounding {
			t.Errorf("meeting %d: this node from %v to %v, the peer from %v to %v", i,
				f.timeOf(f.prober, m.Own.Lo), f.timeOf(f.prober, m.Own.Hi),
				f.timeOf(f.answerer, m.Peer.Lo), f.timeOf(f.answerer, m.Peer.Hi))
		}
	}
}

// A shared clock may run at any rate and wander as far as its settings say, and readings and
// packets may take any time. Nevertheless, every meeting that a train returns must have happened.
func TestMeetings(t *testing.T) {
	r := seed.Random(t)
	const trains = 1000
	for range trains {
		f := newFakePair(t)
		if r.IntN(2) == 0 {
			f.stampInKernel()
		}
		f.route = func(*fakeEnd, []byte) []time.Duration {
			return []time.Duration{time.Duration(1000 + r.Int64N(1_000_000))}
		}
		c := simulatedClock{offset_ns: float64(r.Int64N(1 << 40)), rate: 0.8 + 0.4*r.Float64(),
			swing: math.Pow(10, -7+5*r.Float64()), step_ns: float64(1 + r.IntN(1000)),
			period_ns: math.Pow(10, 3+5*r.Float64())}
		error_ns := r.Int64N(200)
		// The wander is relative to the clock's rate, so divide by the lowest rate. The clock's
		// rate may be at one end of the swing, and its mean rate in a train at the other end, so
		// allow twice the swing.
		wander := 2.1 * c.swing / (1 - c.swing)
		for _, e := range f.ends() {
			shared := e.addSharedClock(r, "host", wander, int64(c.step_ns)+1, error_ns, c.at)
			if e == f.prober {
				f.p.clock.Shared = shared
			} else {
				f.a.clock.Shared = shared
			}
		}
		tr, err := f.checkTrain(t)
		if err != nil {
			t.Fatal(err)
		}
		if len(tr.Meetings) != 2 || tr.ClocksDiffer {
			t.Fatalf("%d meetings, clocks differ: %t; want 2, false; clock %+v",
				len(tr.Meetings), tr.ClocksDiffer, c)
		}
		if tr.Meetings[1].Peer.Lo <= tr.Meetings[0].Peer.Lo {
			t.Error("both meetings are at one end of the train")
		}
		if size := 2 * uint64(longestSize); tr.Counts.SharedCloses != 2 ||
			tr.Counts.Bytes() < size {
			t.Errorf("%d closes with a shared clock, %d bytes in all", tr.Counts.SharedCloses,
				tr.Counts.Bytes())
		}
		f.checkMeetings(t, tr.Meetings)
		if t.Failed() {
			t.Fatalf("clock %+v", c)
		}
	}
}

// A steady clock that is read within 100 ns tells two nodes their relation far better than packets
// that take half a millisecond.
func TestMeetingsAreNarrow(t *testing.T) {
	f := newFakePair(t)
	f.route = func(*fakeEnd, []byte) []time.Duration {
		return []time.Duration{time.Millisecond / 2}
	}
	r := rand.New(rand.NewPCG(1, 1))
	for _, e := range f.ends() {
		shared := &SharedClock{Name: "host", Wander_ppb: 500_000, Step_ns: 1,
			Read: func() (uint64, int64, uint64, bool) {
				before := e.counter()
				e.net.now += time.Duration(r.Int64N(50))
				return before, int64(e.net.now), e.counter(), true
			}}
		if e == f.prober {
			f.p.clock.Shared = shared
		} else {
			f.a.clock.Shared = shared
		}
	}
	tr, err := f.checkTrain(t)
	if err != nil || len(tr.Meetings) != 2 {
		t.Fatalf("%d meetings, %v", len(tr.Meetings), err)
	}
	// In the half millisecond until the packet arrives, the clock may gain or lose a quarter of a
	// microsecond by its wander, and as much by the error of the mean rate.
	for _, m := range tr.Meetings {
		if own_ns := m.Own.Width() / 2; own_ns > 1200 {
			t.Errorf("the moment is known within %d ns", own_ns)
		}
	}
	f.checkMeetings(t, tr.Meetings)
}

// There are no meetings if one node reads no shared clock, if the two nodes read clocks of
// different names, if the clock cannot be read, or if no single clock can show what the nodes read.
func TestNoMeetings(t *testing.T) {
	r := seed.Random(t)
	clock := func(at time.Duration) int64 { return int64(at) }
	later := func(at time.Duration) int64 { return int64(at) + 1_000_000 }
	for name, tc := range map[string]struct {
		own, peer string
		clock     func(time.Duration) int64
		broken    bool
		differ    bool
	}{
		"no clock":              {"", "", clock, false, false},
		"the peer has none":     {"host", "", clock, false, false},
		"only the peer has one": {"", "host", clock, false, false},
		"another name":          {"host", "tsoh", clock, false, false},
		"cannot be read":        {"host", "host", clock, true, false},
		"another clock":         {"host", "host", later, false, true},
	} {
		f := newFakePair(t)
		if tc.own != "" {
			f.p.clock.Shared = f.prober.addSharedClock(r, tc.own, 1e-4, 1, 0, clock)
		}
		if tc.peer != "" {
			f.a.clock.Shared = f.answerer.addSharedClock(r, tc.peer, 1e-4, 1, 0, tc.clock)
		}
		if tc.broken {
			f.a.clock.Shared.Read = func() (uint64, int64, uint64, bool) { return 0, 0, 0, false }
		}
		tr, err := f.checkTrain(t)
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if len(tr.Exchanges) != 6 || len(tr.Meetings) != 0 || tr.ClocksDiffer != tc.differ {
			t.Errorf("%s: %d exchanges, %d meetings, clocks differ: %t; want 6, 0, %t", name,
				len(tr.Exchanges), len(tr.Meetings), tr.ClocksDiffer, tc.differ)
		}
	}
}

// A meeting proves two inequalities, like an exchange whose two packets take no time.
func TestMeetingProvesTwoInequalities(t *testing.T) {
	m := Meeting{Own: tscratio.Interval{Lo: 10, Hi: 12}, Peer: tscratio.Interval{Lo: 100, Hi: 105}}
	lower, upper := m.Constraints(tscratio.StartedByA)
	if want := (tscratio.Constraint{Kind: tscratio.Lower, B: 105, A: 10}); lower != want {
		t.Errorf("lower %+v, want %+v", lower, want)
	}
	if want := (tscratio.Constraint{Kind: tscratio.Upper, B: 100, A: 12}); upper != want {
		t.Errorf("upper %+v, want %+v", upper, want)
	}
	lower, upper = m.Constraints(tscratio.StartedByB)
	if want := (tscratio.Constraint{Kind: tscratio.Lower, B: 12, A: 100}); lower != want {
		t.Errorf("started by B: lower %+v, want %+v", lower, want)
	}
	if want := (tscratio.Constraint{Kind: tscratio.Upper, B: 10, A: 105}); upper != want {
		t.Errorf("started by B: upper %+v, want %+v", upper, want)
	}
}
