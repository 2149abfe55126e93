package generator

import (
	"context"
	"math"
	"slices"
	"testing"
	"time"
)

func TestJudgeTellsTheGeneratorFromTheEngine(t *testing.T) {
	o, _ := simulatedEngine{serve: constantly(1e9), capacity: 50_000}.observe(
		t.Context(), 100_000, time.Second, 3*time.Second,
	)
	if v := judge(o, limits{growth: 0.005}); !slices.Equal(v.Reasons, []Reason{Generator}) {
		t.Errorf("a generator that falls behind: %v", v.Reasons)
	}
	o.Sender.Blocked = 2 * time.Second // the engine refused tuples
	if v := judge(o, limits{growth: 0.005}); !slices.Equal(v.Reasons, []Reason{BacklogGrows}) {
		t.Errorf("an engine that refuses: %v", v.Reasons)
	}
}

// A slow beginning of an engine has no influence on the verdict.
func TestJudgeLeavesOutTheWarmUp(t *testing.T) {
	cold := simulatedEngine{serve: func(at time.Duration, _, _ float64) float64 {
		if at < 800*time.Millisecond {
			return 0
		}
		return 1e9
	}}
	o, _ := cold.observe(t.Context(), 10_000, time.Second, 3*time.Second)
	v := judge(o, limits{growth: 0.005})
	if !v.keptUp() || v.Stalls.Count > 0 || v.Backlog > 20 || math.Abs(v.Delivered-10_000) > 20 {
		t.Errorf("%+v", v)
	}
}

// If a trial ended early because the engine was far behind, the rate is not sustained, whatever the
// samples show.
func TestJudgeTakesNoCutTrialForSustained(t *testing.T) {
	o, _ := simulatedEngine{serve: constantly(1e9)}.observe(
		t.Context(), 10_000, time.Second, 3*time.Second,
	)
	o.Cut = true
	if v := judge(o, limits{growth: 0.005}); !slices.Equal(v.Reasons, []Reason{BacklogGrows}) {
		t.Errorf("%v", v.Reasons)
	}
}

// If an engine pauses now and then, its backlog rises and falls like the teeth of a saw. The
// function judge compares only the smallest backlogs, so the judged time may begin and end anywhere
// on a tooth.
func TestJudgeLooksAtTheFeetOfTheSaw(t *testing.T) {
	stalls := simulatedEngine{serve: stallingServer}
	for _, test := range []struct {
		rate           float64
		warmUp, length time.Duration
		kept           bool
	}{
		// The judged time ends at the top of a tooth, where the backlog is largest.
		{94_000, 1020 * time.Millisecond, 3030 * time.Millisecond, true},
		{94_000, 1050 * time.Millisecond, 3 * time.Second, true},
		// The judged time begins at the top of a tooth and ends at a foot.
		{96_500, 1050 * time.Millisecond, 2949 * time.Millisecond, false},
	} {
		o, _ := stalls.observe(t.Context(), test.rate, test.warmUp, test.length)
		o.Slices = nil // judge by the backlog alone
		if v := judge(o, limits{growth: 0.005}); v.keptUp() != test.kept {
			t.Errorf("at %.0f from %s for %s: %v, growth %.0f",
				test.rate, test.warmUp, test.length, v.Reasons, v.BacklogGrowth)
		}
	}
}

func TestStallsAreTheEnginesOnly(t *testing.T) {
	samples := func(rate float64, sent, done func(k int) uint64) (list []Sample) {
		for k := range 1000 {
			at, due := time.Duration(k)*time.Millisecond, uint64(rate*float64(k)/1e3)
			list = append(list, Sample{at, due, sent(k), done(k)})
		}
		return list
	}
	every := func(k int) uint64 { return uint64(k) * 10 }
	pauses := func(k int) uint64 { // the engine pauses from 300 ms to 340 ms
		if k > 300 && k < 340 {
			k = 300
		}
		return uint64(k) * 10
	}
	ahead := func(k int) uint64 { return every(k) + 5 }
	seldom := func(k int) uint64 { return uint64(k / 50) }
	later := func(k int) uint64 { return uint64(max(0, k-60) / 50) }
	steady := samples(10_000, every, every)
	for name, test := range map[string]struct {
		list []Sample
		want int
	}{
		"an engine that pauses":      {samples(10_000, ahead, pauses), 1},
		"a generator that pauses":    {samples(10_000, pauses, pauses), 0},
		"no pause":                   {steady, 0},
		"a low rate has long gaps":   {samples(20, seldom, later), 0},
		"samples that lack the time": {slices.Concat(steady[:300], steady[340:]), 0},
	} {
		got := findStalls(test.list)
		if len(got) != test.want || test.want > 0 && got[0].For != 39*time.Millisecond {
			t.Errorf("%s: %v, want %d", name, got, test.want)
		}
	}
}

func TestStallsKeepABeat(t *testing.T) {
	beat := func(more ...Stall) Stalls {
		var list []Stall
		for i := range time.Duration(5) {
			list = append(list, Stall{i * time.Second, 40 * time.Millisecond})
		}
		list = append(list, more...)
		slices.SortFunc(list, func(a, b Stall) int { return int(a.At - b.At) })
		return sumUp(list)
	}
	for name, test := range map[string]struct {
		got  Stalls
		want time.Duration
	}{
		"alone": {beat(), time.Second},
		"with short ones between": {
			beat(
				Stall{1300 * time.Millisecond, 6 * time.Millisecond},
				Stall{2700 * time.Millisecond, 19 * time.Millisecond},
			),
			time.Second,
		},
		"with as long ones between": {
			beat(
				Stall{1300 * time.Millisecond, 38 * time.Millisecond},
				Stall{2700 * time.Millisecond, 44 * time.Millisecond},
			),
			0,
		},
	} {
		if test.got.Every != test.want || test.got.Typical != 40*time.Millisecond && test.want > 0 {
			t.Errorf("%s: %+v, want one each %s", name, test.got, test.want)
		}
	}
}

func TestJudgeHoldsLatencyAgainstItsLimit(t *testing.T) {
	o, _ := simulatedEngine{serve: constantly(1e9)}.observe(t.Context(), 1000, time.Second,
		3*time.Second)
	o.Latency.RecordValue(int64(30 * time.Millisecond))
	v := judge(o, limits{growth: 0.005, latency: 20 * time.Millisecond})
	if !slices.Equal(v.Reasons, []Reason{LatencyTooHigh}) {
		t.Errorf("%v", v.Reasons)
	}
	if v := judge(o, limits{growth: 0.005, latency: 40 * time.Millisecond}); !v.keptUp() {
		t.Errorf("%v", v.Reasons)
	}
}

// An engine may hide its backlog by counting tuples as done too early. The latency still shows it.
func TestJudgeSeesLatencyGrow(t *testing.T) {
	o, _ := simulatedEngine{serve: constantly(1e9)}.observe(
		t.Context(), 10_000, time.Second, 3*time.Second,
	)
	for i := range o.Slices {
		o.Slices[i].Median = time.Duration(i) * 2 * time.Millisecond
	}
	if v := judge(o, limits{growth: 0.005}); !slices.Equal(v.Reasons, []Reason{LatencyGrows}) {
		t.Errorf("%v, growth %g", v.Reasons, v.LatencyGrowth)
	}
}

// These engines take every tuple. A trial sees which tuples come out of them.
func TestTrialSeesWhatTheEngineDoes(t *testing.T) {
	const n = 100
	for name, test := range map[string]struct {
		out  func(k int, id uint64) []uint64 // ids that come out when tuple k goes in
		want Check
	}{
		"all": {
			func(_ int, id uint64) []uint64 { return []uint64{id} },
			Check{Received: n, Sources: 1, Ended: 1},
		},
		"not the last 5": {func(k int, id uint64) []uint64 {
			if k >= n-5 {
				return nil
			}
			return []uint64{id}
		}, Check{Received: n - 5, Lost: 5, Sources: 1, Ended: 1}},
		"one twice": {func(k int, id uint64) []uint64 {
			if k == 7 {
				return []uint64{id, id}
			}
			return []uint64{id}
		}, Check{Received: n + 1, Duplicates: 1, Sources: 1, Ended: 1}},
		"some of an earlier trial": {
			func(_ int, id uint64) []uint64 { return []uint64{id, id - 2*n} },
			Check{Received: n, Sources: 1, Ended: 1},
		},
	} {
		t.Run(name, func(t *testing.T) {
			var s *Search
			k, refuse := 0, false
			var taken []uint64
			engine := SinkFunc(func(tuples []Tuple) (int, error) {
				if refuse && len(taken) >= 40 {
					return 0, nil
				}
				for _, tuple := range tuples {
					taken = append(taken, tuple.ID)
					s.Done(test.out(k, tuple.ID)...)
					k++
				}
				return len(tuples), nil
			})
			s, err := NewSearch(SearchOptions{
				Tuples:  testTuples(t),
				IDs:     testIDs,
				Drain:   20 * time.Millisecond,
				Connect: func(int) (Sink, error) { return engine, nil },
			})
			if err != nil {
				t.Fatal(err)
			}
			if err := s.connect(); err != nil {
				t.Fatal(err)
			}
			defer s.close()
			o, err := s.tryRate(t.Context(), 2000, 0, 50*time.Millisecond)
			if err != nil || o.Sender.Sent != n || o.Check != test.want {
				t.Errorf("sent %d: %+v, want %+v, %v", o.Sender.Sent, o.Check, test.want, err)
			}
			if name != "all" {
				return
			}
			// The first trial could not use all its ids. The next trial begins with the rest of
			// them.
			refuse, taken = true, taken[:0]
			ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
			defer cancel()
			o, err = s.tryRate(ctx, 2000, 0, 10*time.Second)
			if err != nil || o.Sender.Unsent == 0 {
				t.Fatalf("%+v, %v", o.Sender, err)
			}
			refuse = false
			if _, err = s.tryRate(t.Context(), 2000, 0, 50*time.Millisecond); err != nil {
				t.Fatal(err)
			}
			for i, id := range taken {
				if id != taken[0]+uint64(i) {
					t.Fatalf("tuple %d has id %d after %d", i, id, taken[i-1])
				}
			}
		})
	}
}
