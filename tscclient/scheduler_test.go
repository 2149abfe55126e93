package tscclient

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/cloudprofiler/cloudprofiler/internal/seed"
)

// simulatedPeers is a scheduler with simulated peers that have given bounds.
type simulatedPeers struct {
	scheduler *probeScheduler
	now       time.Time
	widths    map[string]time.Duration
	dead      map[string]bool
	cost      func() Cost
	takes     func() time.Duration

	begun []begun
	gaps  map[string]time.Duration // by peer: the longest time from one train to the next
	last  map[string]time.Time
}

type begun struct {
	peer string
	at   time.Time
	cost Cost
}

func (w *simulatedPeers) run(d time.Duration) {
	if w.gaps == nil {
		w.gaps, w.last = map[string]time.Duration{}, map[string]time.Time{}
		for name := range w.widths {
			w.last[name] = w.now
		}
	}
	for end := w.now.Add(d); w.now.Before(end); {
		peer, wait := w.scheduler.nextPeer(w.now)
		if peer == "" {
			w.now = w.now.Add(wait)
			continue
		}
		w.gaps[peer] = max(w.gaps[peer], w.now.Sub(w.last[peer]))
		w.last[peer] = w.now
		cost := w.cost()
		w.begun = append(w.begun, begun{peer, w.now, cost})
		w.scheduler.noteBegin(peer, w.now)
		w.now = w.now.Add(w.takes())
		if w.dead[peer] {
			w.scheduler.noteFailure(peer, w.now, cost)
		} else {
			w.scheduler.noteEnd(peer, w.now, cost, w.widths[peer], true)
		}
	}
	for name := range w.widths {
		w.gaps[name] = max(w.gaps[name], w.now.Sub(w.last[name]))
	}
}

func (w *simulatedPeers) count(peer string) (n int) {
	for _, b := range w.begun {
		if b.peer == peer {
			n++
		}
	}
	return n
}

func randomWorld(t *testing.T, r *rand.Rand) (*simulatedPeers, Budget) {
	t.Helper()
	b := Budget{TrainsPerSecond: 0.5 + r.Float64()*40}
	if r.IntN(3) > 0 {
		b.CPUShare = 0.0005 + r.Float64()*0.01
	}
	if r.IntN(3) > 0 {
		b.BytesPerSecond = 500 + r.Float64()*50_000
	}
	s, err := newScheduler(b, DefaultPace())
	if err != nil {
		t.Fatal(err)
	}
	w := &simulatedPeers{
		scheduler: s, now: time.Unix(1000, 0),
		widths: map[string]time.Duration{}, dead: map[string]bool{},
	}
	var names []string
	for i := range 1 + r.IntN(30) {
		name := fmt.Sprint(i)
		names = append(names, name)
		w.widths[name] = time.Duration(r.ExpFloat64() * 1000)
		w.dead[name] = r.IntN(6) == 0
	}
	s.setPeers(names)
	w.cost = func() Cost {
		return Cost{time.Duration(100_000 + r.Int64N(400_000)), uint64(500 + r.IntN(1000))}
	}
	w.takes = func() time.Duration { return time.Duration(r.Int64N(20e6)) }
	return w, b
}

// However much a train costs, the scheduler spends in any period at most the period's budget, plus
// the budget of one second, plus the cost of one train.
func TestSchedulerStaysWithinItsBudget(t *testing.T) {
	seed.For(t, 30, func(t *testing.T, r *rand.Rand) {
		w, b := randomWorld(t, r)
		w.run(40 * time.Second)
		for i := range w.begun {
			var trains, cpu, bytes float64
			for _, x := range w.begun[i:] {
				trains++
				cpu += float64(x.cost.CPU)
				bytes += float64(x.cost.Bytes)
				span := x.at.Sub(w.begun[i].at).Seconds()
				const oneCPU, oneBytes, rounding = 500_000, 1500, 2
				switch {
				case trains > b.TrainsPerSecond*span+max(b.TrainsPerSecond, 1)+1e-6:
					t.Fatalf("%g trains in %g s, budget %g a second",
						trains, span, b.TrainsPerSecond)
				case b.CPUShare > 0 && cpu > b.CPUShare*1e9*(span+1)+oneCPU+rounding:
					t.Fatalf("%g ns of CPU time in %g s, budget %g", cpu, span, b.CPUShare)
				case b.BytesPerSecond > 0 && bytes > b.BytesPerSecond*(span+1)+oneBytes+rounding:
					t.Fatalf("%g bytes in %g s, budget %g a second",
						bytes, span, b.BytesPerSecond)
				}
			}
		}
	})
}

// However small the budget is, no peer waits too long. The shorter the wanted time between a peer's
// trains is, the larger is the peer's share of the trains. The wanted time is between 0.25 s and 2
// s, so the largest share is at most eight times the smallest. So a peer waits at most eight times
// as long as it would if all peers had equal shares.
func TestSchedulerStarvesNobody(t *testing.T) {
	seed.For(t, 30, func(t *testing.T, r *rand.Rand) {
		w, _ := randomWorld(t, r)
		const span = 10 * time.Minute
		w.run(span)
		perSecond := float64(len(w.begun)) / span.Seconds()
		fair := time.Duration(float64(len(w.widths)) / perSecond * 1e9)
		pace := DefaultPace()
		limit := max(pace.Slowest, fair*time.Duration(pace.Slowest/pace.Fastest)) + 3*time.Second
		for name, gap := range w.gaps {
			if gap > limit {
				t.Errorf("peer %s waited %v, %d peers at %.2f trains a second: limit %v",
					name, gap, len(w.widths), perSecond, limit)
			}
		}
	})
}

// If the budget does not suffice, a pair whose bound is eight times as wide as another pair's bound
// gets eight times as many trains. If the budget suffices, each pair is probed as often as its
// bound asks for (Pace).
func TestSchedulerProbesWidePairsMore(t *testing.T) {
	for _, tc := range []struct {
		name            string
		trains          float64
		narrow, wide    int // number of trains in 100 s
		allow_per_cent  int
		narrowW, wideW  time.Duration
		ratioAtLeastPct int
	}{
		{"scarce", 1, 0, 0, 0, 400 * time.Nanosecond, 4 * time.Microsecond, 600},
		{"plenty", 100, 50, 400, 5, 400 * time.Nanosecond, 4 * time.Microsecond, 750},
		{"equal", 1, 50, 50, 5, time.Microsecond, time.Microsecond, 95},
		{"all good", 100, 50, 50, 5, 1, 500, 95},
	} {
		s, err := newScheduler(Budget{TrainsPerSecond: tc.trains}, DefaultPace())
		if err != nil {
			t.Fatal(err)
		}
		s.setPeers([]string{"narrow", "wide"})
		w := &simulatedPeers{
			scheduler: s, now: time.Unix(0, 0),
			widths: map[string]time.Duration{"narrow": tc.narrowW, "wide": tc.wideW},
			cost:   func() Cost { return Cost{} }, takes: func() time.Duration { return 0 },
		}
		w.run(100 * time.Second)
		narrow, wide := w.count("narrow"), w.count("wide")
		within := func(got, want int) bool {
			return want == 0 || (got-want)*100 <= want*tc.allow_per_cent &&
				(want-got)*100 <= want*tc.allow_per_cent
		}
		if !within(narrow, tc.narrow) || !within(wide, tc.wide) ||
			wide*100 < narrow*tc.ratioAtLeastPct {
			t.Errorf("%s: %d trains with the narrow pair and %d with the wide one, want %d and %d",
				tc.name, narrow, wide, tc.narrow, tc.wide)
		}
	}
}

func TestSchedulerAtItsEdges(t *testing.T) {
	now := time.Unix(5, 0)
	s, err := newScheduler(DefaultBudget(), DefaultPace())
	if err != nil {
		t.Fatal(err)
	}
	if peer, wait := s.nextPeer(now); peer != "" || wait != time.Hour {
		t.Errorf("without peers: %q, %v", peer, wait)
	}
	s.setPeers([]string{"a", "a", "b"})
	if peer, _ := s.nextPeer(now); peer != "a" {
		t.Errorf("first is %q", peer)
	}
	s.noteBegin("a", now)
	s.noteFailure("a", now, Cost{})
	if peer, _ := s.nextPeer(now); peer != "b" {
		t.Errorf("after a comes %q", peer)
	}
	s.noteBegin("b", now)
	s.noteEnd("b", now, Cost{}, time.Hour, true)
	if peer, wait := s.nextPeer(now); peer != "" || wait != 500*time.Millisecond {
		t.Errorf("after two trains: %q, %v, want to wait for the budget", peer, wait)
	}
	s.setPeers([]string{"b"}) // a peer that stays keeps its turn
	if peer, wait := s.nextPeer(now.Add(249 * time.Millisecond)); peer != "" {
		t.Errorf("%q is probed after 249 ms, %v", peer, wait)
	}
	s.noteEnd("gone", now, Cost{}, 0, false)
	none, err := newScheduler(Budget{}, DefaultPace())
	if err != nil {
		t.Fatal(err)
	}
	none.setPeers([]string{"a"})
	if peer, wait := none.nextPeer(now); peer != "" || wait != time.Hour {
		t.Errorf("without a budget: %q, %v", peer, wait)
	}
	for _, b := range []Budget{{TrainsPerSecond: -1}, {CPUShare: 2}, {BytesPerSecond: 1e11}} {
		if _, err := newScheduler(b, DefaultPace()); err == nil {
			t.Errorf("%+v is accepted", b)
		}
	}
	if _, err := newScheduler(Budget{}, Pace{Target: 1, Fastest: 2, Slowest: 1}); err == nil {
		t.Error("a slowest that is faster than the fastest is accepted")
	}
}
