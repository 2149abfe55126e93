package generator

import (
	"context"
	"math"
	"slices"
	"testing"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/cloudprofiler/cloudprofiler/asm"
)

// A simulated engine is a queue that a server empties: what it does in a step of a millisecond.
type simulated struct {
	serve    func(at time.Duration, rate, queued float64) float64 // tuples a second at this moment
	loses    func(rate float64) bool
	capacity float64 // of the generator, 0: enough
}

// observe runs the engine for a trial, in no time.
func (e simulated) observe(_ context.Context, rate float64, warmUp, length time.Duration) (Observation, error) {
	o := Observation{Rate: rate, WarmUp: warmUp, Length: length, Latency: hdrhistogram.New(1, longestLatency_ns, 3)}
	const step = time.Millisecond
	queue, done, sent := 0.0, 0.0, 0.0
	offered := rate
	if e.capacity > 0 {
		offered = min(rate, e.capacity)
	}
	for at := step; at <= warmUp+length; at += step {
		sent += offered * step.Seconds()
		queue += offered * step.Seconds()
		served := min(queue, e.serve(at, rate, queue)*step.Seconds())
		queue, done = queue-served, done+served
		o.Samples = append(o.Samples, Sample{at, uint64(rate * at.Seconds()), uint64(sent), uint64(done)})
		if at%latencySlice == 0 {
			o.Slices = append(o.Slices, LatencySlice{at - latencySlice, time.Duration(queue / 100_000 * 1e9)})
		}
		if o.Samples[len(o.Samples)-1].backlog() > rate/2 && at > warmUp+length/6 {
			o.Cut = true
			break
		}
	}
	o.Check = Check{Received: uint64(done), Sources: 1, Ended: 1}
	if e.loses != nil && e.loses(rate) {
		o.Check.Lost = 3
	}
	return o, nil
}

func (e simulated) search(t *testing.T, o SearchOptions) SearchResult {
	t.Helper()
	o.Connect, o.Tuples = func(int) (Sink, error) { return Discard{}, nil }, testTuples(t)
	s, err := NewSearch(o)
	if err != nil {
		t.Fatal(err)
	}
	ceiling := 10e6
	if e.capacity > 0 {
		ceiling = e.capacity
	}
	s.measureCeiling = func(context.Context) (float64, error) { return ceiling, nil }
	s.try = e.observe
	r, err := s.Run(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func constantly(rate float64) func(time.Duration, float64, float64) float64 {
	return func(time.Duration, float64, float64) float64 { return rate }
}

func TestSearchFindsKnownLimits(t *testing.T) {
	tests := map[string]struct {
		engine simulated
		o      SearchOptions
		want   float64
		by     string
		why    Reason
		stall  time.Duration
	}{
		"a steady server": {simulated{serve: constantly(100_000)}, SearchOptions{}, 100_000, ByEngine, BacklogGrows, 0},
		"a slow one":      {simulated{serve: constantly(333)}, SearchOptions{}, 333, ByEngine, BacklogGrows, 0},
		"one that stalls 50 ms each second": {simulated{serve: func(at time.Duration, _, _ float64) float64 {
			if at%time.Second < 50*time.Millisecond {
				return 0
			}
			return 100_000
		}}, SearchOptions{}, 95_000, ByEngine, BacklogGrows, 50 * time.Millisecond},
		"one that breaks down under load": {simulated{serve: func(_ time.Duration, _, queued float64) float64 {
			if queued > 2000 {
				return 20_000
			}
			return 70_000
		}}, SearchOptions{}, 70_000, ByEngine, BacklogGrows, 0},
		"one that loses": {simulated{serve: constantly(1e6), loses: func(rate float64) bool { return rate > 40_000 }},
			SearchOptions{}, 40_000, ByEngine, TuplesLost, 0},
		"faster than the generator": {simulated{serve: constantly(1e9), capacity: 2e6}, SearchOptions{}, ceilingShare * 2e6, ByGenerator, "", 0},
		"faster than wanted":        {simulated{serve: constantly(1e9)}, SearchOptions{Highest: 50_000}, 50_000, ByHighest, "", 0},
		"coarse":                    {simulated{serve: constantly(123_456)}, SearchOptions{Resolution: 0.1}, 123_456, ByEngine, BacklogGrows, 0},
		"dead":                      {simulated{serve: constantly(0)}, SearchOptions{}, 0, ByNothing, NothingSeen, 0},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			r := test.engine.search(t, test.o)
			tolerance := max(0.011, test.o.Resolution*1.1)
			if r.LimitedBy != test.by || math.Abs(r.Sustained-test.want) > tolerance*test.want {
				t.Errorf("sustained %.0f by %s, want %.0f by %s\n%s", r.Sustained, r.LimitedBy, test.want, test.by, r.Answer())
			}
			// A backlog that grows is a latency that grows: where one is just at its limit, the other tells.
			if test.why != "" && !slices.Contains(r.Why, test.why) && !(test.why == BacklogGrows && slices.Contains(r.Why, LatencyGrows)) {
				t.Errorf("why %v, want %s", r.Why, test.why)
			}
			if s := r.Stalls; test.stall > 0 && ((s.Typical-test.stall).Abs() > 3*time.Millisecond || (s.Every-time.Second).Abs() > 10*time.Millisecond) {
				t.Errorf("stalls %+v, want %s each second", s, test.stall)
			} else if test.stall == 0 && s.Count > 0 {
				t.Errorf("stalls %+v of an engine that has none", s)
			}
			if r.LimitedBy != ByNothing && r.Confirmed != 3 {
				t.Errorf("confirmed %d times, want 3", r.Confirmed)
			}
			t.Logf("%d trials: %s", len(r.Trials), r.Answer())
		})
	}
}

// A rate that was sustained in a short trial and is not in a long one must not be reported.
func TestSearchForgetsWhatIsNotConfirmed(t *testing.T) {
	// The queue is fine for three seconds, then grows.
	engine := simulated{serve: func(at time.Duration, rate, _ float64) float64 {
		if at > 3*time.Second && rate > 30_000 {
			return rate * 0.9
		}
		return 1e6
	}}
	if r := engine.search(t, SearchOptions{Start: 160_000}); r.Sustained > 30_000*1.001 || r.Sustained < 29_000 {
		t.Errorf("sustained %.0f, want 30,000: %s", r.Sustained, r.Answer())
	}
}

// What this machine did may have kept the engine from its work: such a trial is made once more, an undisturbed one is not.
func TestSearchTriesAgainWhatWasDisturbed(t *testing.T) {
	for name, test := range map[string]struct {
		marks []Marked
		want  float64
	}{"disturbed": {[]Marked{{Mark: Late}}, 100_000}, "not disturbed": {nil, 0}, "the generator's doing": {nil, 100_000}} {
		engine := simulated{serve: constantly(100_000)}
		s, err := NewSearch(SearchOptions{Connect: func(int) (Sink, error) { return Discard{}, nil }, Tuples: testTuples(t)})
		if err != nil {
			t.Fatal(err)
		}
		tried := map[float64]int{}
		s.measureCeiling = func(context.Context) (float64, error) { return 10e6, nil }
		s.try = func(ctx context.Context, rate float64, warmUp, length time.Duration) (Observation, error) {
			o, err := engine.observe(ctx, rate, warmUp, length)
			if tried[rate]++; rate > 50_000 && tried[rate] <= generatorRetries && name == "the generator's doing" {
				return simulated{serve: constantly(100_000), capacity: rate / 2}.observe(ctx, rate, warmUp, length)
			}
			if rate > 50_000 && tried[rate] == 1 && name != "the generator's doing" {
				o.Check.Duplicates, o.Sender.Marks = 1, test.marks // goes wrong the first time
			}
			return o, err
		}
		r, err := s.Run(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if near := math.Abs(r.Sustained-100_000) < 1100; near != (test.want > 0) {
			t.Errorf("%s: sustained %.0f", name, r.Sustained)
		}
	}
}

func TestJudgeTellsTheGeneratorFromTheEngine(t *testing.T) {
	o, _ := simulated{serve: constantly(1e9), capacity: 50_000}.observe(t.Context(), 100_000, time.Second, 3*time.Second)
	if v := judge(o, limits{growth: 0.005}); !slices.Equal(v.Reasons, []Reason{Generator}) {
		t.Errorf("a generator that falls behind: %v", v.Reasons)
	}
	o.Sender.Blocked = 2 * time.Second // the engine refused
	if v := judge(o, limits{growth: 0.005}); !slices.Equal(v.Reasons, []Reason{BacklogGrows}) {
		t.Errorf("an engine that refuses: %v", v.Reasons)
	}
}

// A generator that falls behind below the ceiling that was measured is the limit all the same, not the engine.
func TestSearchNamesAGeneratorThatFallsBehind(t *testing.T) {
	s, err := NewSearch(SearchOptions{Connect: func(int) (Sink, error) { return Discard{}, nil }, Tuples: testTuples(t)})
	if err != nil {
		t.Fatal(err)
	}
	s.measureCeiling = func(context.Context) (float64, error) { return 10e6, nil }
	s.try = simulated{serve: constantly(1e9), capacity: 50_000}.observe
	r, err := s.Run(t.Context())
	if err != nil || r.LimitedBy != ByGenerator || math.Abs(r.Sustained-50_000) > 600 || !slices.Contains(r.Why, Generator) {
		t.Errorf("sustained %.0f, limited by %s, %v, %v", r.Sustained, r.LimitedBy, r.Why, err)
	}
}

// Of a limit that shows at once a search needs few trials: three to bracket it, one at either side, and the confirmations. Then come those of the curve, at
// rates below.
func TestSearchNeedsFewTrials(t *testing.T) {
	r := simulated{serve: constantly(100_000)}.search(t, SearchOptions{})
	phases, rates := map[string]int{}, []float64{}
	for _, trial := range r.Trials {
		if phases[trial.Phase]++; trial.Phase == "curve" {
			rates = append(rates, math.Round(100*trial.Rate/r.Sustained)/100)
		}
	}
	if phases["bracket"] != 3 || phases["bisect"] != 2 || phases["confirm"] != 3 || !slices.Equal(rates, curveShares) {
		t.Errorf("trials %v, the curve at %v", phases, rates)
	}
	if r := (simulated{serve: constantly(100_000)}).search(t, SearchOptions{NoCurve: true}); len(r.Trials) != 8 {
		t.Errorf("%d trials without the curve, want 8", len(r.Trials))
	}
}

// A limit on latency is held in every trial: this engine keeps up with any rate, and is slow above one.
func TestSearchKeepsToALatency(t *testing.T) {
	s, err := NewSearch(SearchOptions{Connect: func(int) (Sink, error) { return Discard{}, nil }, Tuples: testTuples(t), Latency: 20 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	s.measureCeiling = func(context.Context) (float64, error) { return 10e6, nil }
	lengths := map[[2]time.Duration]int{}
	s.try = func(ctx context.Context, rate float64, warmUp, length time.Duration) (Observation, error) {
		lengths[[2]time.Duration{warmUp, length}]++
		o, err := simulated{serve: constantly(1e9)}.observe(ctx, rate, warmUp, length)
		if rate > 70_000 {
			o.Latency.RecordValue(int64(30 * time.Millisecond))
		}
		return o, err
	}
	r, err := s.Run(t.Context())
	if err != nil || math.Abs(r.Sustained-70_000) > 710 || !slices.Contains(r.Why, LatencyTooHigh) {
		t.Errorf("sustained %.0f, %v, %v", r.Sustained, r.Why, err)
	}
	// What is reported comes from trials of full length, after a full warm-up. Those that only look for where to begin, or fill the curve, are short.
	full, short := lengths[[2]time.Duration{time.Second, 5 * time.Second}], lengths[[2]time.Duration{500 * time.Millisecond, 5 * time.Second / 3}]
	if full < 5 || full+short != len(r.Trials) {
		t.Errorf("warm-ups and lengths of %d trials: %v", len(r.Trials), lengths)
	}
}

// An engine that is slow to begin is not judged by its beginning.
func TestJudgeLeavesOutTheWarmUp(t *testing.T) {
	cold := simulated{serve: func(at time.Duration, _, _ float64) float64 {
		if at < 800*time.Millisecond {
			return 0
		}
		return 1e9
	}}
	o, _ := cold.observe(t.Context(), 10_000, time.Second, 3*time.Second)
	if v := judge(o, limits{growth: 0.005}); !v.kept() || v.Stalls.Count > 0 || v.Backlog > 20 || math.Abs(v.Delivered-10_000) > 20 {
		t.Errorf("%+v", v)
	}
}

func TestOutletCountsTheLatencyOfWhatIsJudged(t *testing.T) {
	ring, now := newDueRing(), asm.Counter()
	out := &outlet{rings: map[uint64]*dueRing{}, first: map[uint64]uint64{}, hz: 1e9, latency: newLatencies(), start: now - 1000, from: now - 500}
	out.begin(5, ring)
	ring.put(5, now-600) // due in the warm-up
	ring.put(6, now-400)
	out.take([]uint64{5, 6, 4})
	if n := out.latency.TotalCount(); n != 1 || out.done.Load() != 2 || out.stale != 1 {
		t.Errorf("%d latencies, %d came out, %d are of an earlier trial; want 1, 2 and 1", n, out.done.Load(), out.stale)
	}
}

// What a trial sees of an engine that takes what it is given, and then does as it likes.
func TestTrialSeesWhatTheEngineDoes(t *testing.T) {
	const n = 100
	for name, test := range map[string]struct {
		out  func(k int, id uint64) []uint64 // ids that come out when the k-th goes in
		want Check
	}{
		"all": {func(_ int, id uint64) []uint64 { return []uint64{id} }, Check{Received: n, Sources: 1, Ended: 1}},
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
		"some of an earlier trial": {func(_ int, id uint64) []uint64 { return []uint64{id, id - 2*n} }, Check{Received: n, Sources: 1, Ended: 1}},
	} {
		t.Run(name, func(t *testing.T) {
			var s *Search
			k, refuse := 0, false
			var taken []uint64
			s, err := NewSearch(SearchOptions{Tuples: testTuples(t), IDs: testIDs, Drain: 20 * time.Millisecond, Connect: func(int) (Sink, error) {
				return SinkFunc(func(tuples []Tuple) (int, error) {
					if refuse && len(taken) >= 40 {
						return 0, nil
					}
					for _, tuple := range tuples {
						taken = append(taken, tuple.ID)
						s.Done(test.out(k, tuple.ID)...)
						k++
					}
					return len(tuples), nil
				}), nil
			}})
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
			// The ids that a trial could not use are the first of the next.
			refuse, taken = true, taken[:0]
			ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
			defer cancel()
			if o, err = s.tryRate(ctx, 2000, 0, 10*time.Second); err != nil || o.Sender.Unsent == 0 {
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

// A latency is from when a tuple was due, whatever kept it from being sent.
func TestTrialCountsLatencyFromDue(t *testing.T) {
	var s *Search
	var begun time.Time
	s, err := NewSearch(SearchOptions{Tuples: testTuples(t), IDs: testIDs, Connect: func(int) (Sink, error) {
		return SinkFunc(func(tuples []Tuple) (int, error) {
			if begun.IsZero() {
				begun = time.Now()
			}
			if time.Since(begun) < 60*time.Millisecond {
				return 0, nil
			}
			for _, tuple := range tuples {
				s.Done(tuple.ID)
			}
			return len(tuples), nil
		}), nil
	}})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.connect(); err != nil {
		t.Fatal(err)
	}
	defer s.close()
	o, err := s.tryRate(t.Context(), 2000, 0, 100*time.Millisecond)
	// Half of the tuples were due in the first 50 ms, and none came out in the first 60.
	if most := time.Duration(o.Latency.ValueAtQuantile(55)); most < 9*time.Millisecond {
		t.Errorf("45 of 100 tuples came out within %s, but half of them were refused for longer", most)
	}
	if err != nil || o.Latency.Max() < int64(59*time.Millisecond) || o.Latency.TotalCount() != int64(o.Check.Received) {
		t.Errorf("largest latency %s of %d tuples, want 60 ms and more of %d, %v", time.Duration(o.Latency.Max()), o.Latency.TotalCount(), o.Check.Received, err)
	}
}

// What a sink, or who brings back what came out, finds wrong is said at once and is with the result.
func TestSearchIsMarked(t *testing.T) {
	says := newNoticed()
	s, err := NewSearch(SearchOptions{Connect: func(int) (Sink, error) { return Discard{}, nil }, Tuples: testTuples(t), Notice: says.say})
	if err != nil {
		t.Fatal(err)
	}
	s.measureCeiling = func(context.Context) (float64, error) { return 10e6, nil }
	s.try = func(ctx context.Context, rate float64, warmUp, length time.Duration) (Observation, error) {
		s.Mark(Malformed, "what came back is no tuple")
		return simulated{serve: constantly(100_000)}.observe(ctx, rate, warmUp, length)
	}
	r, err := s.Run(t.Context())
	says.wait(t, Malformed)
	if err != nil || len(r.Marks) != 1 || r.Marks[0].Count != uint64(len(r.Trials)) {
		t.Errorf("%d trials, marks %v, %v", len(r.Trials), r.Marks, err)
	}
}

// A trial that was ended for the engine was far behind is not sustained, whatever its samples look like.
func TestJudgeTakesNoCutTrialForSustained(t *testing.T) {
	o, _ := simulated{serve: constantly(1e9)}.observe(t.Context(), 10_000, time.Second, 3*time.Second)
	o.Cut = true
	if v := judge(o, limits{growth: 0.005}); !slices.Equal(v.Reasons, []Reason{BacklogGrows}) {
		t.Errorf("%v", v.Reasons)
	}
}

// Where in a pause the judged time begins or ends must not matter: only the feet of the saw's teeth count.
func TestJudgeLooksAtTheFeetOfTheSaw(t *testing.T) {
	stalls := simulated{serve: func(at time.Duration, _, _ float64) float64 {
		if at%time.Second < 50*time.Millisecond {
			return 0
		}
		return 100_000
	}}
	for _, test := range []struct {
		rate           float64
		warmUp, length time.Duration
		kept           bool
	}{
		{94_000, 1020 * time.Millisecond, 3030 * time.Millisecond, true}, // ends at the top of a tooth
		{94_000, 1050 * time.Millisecond, 3 * time.Second, true},
		{96_500, 1050 * time.Millisecond, 2949 * time.Millisecond, false}, // begins at the top, ends at a foot
	} {
		o, _ := stalls.observe(t.Context(), test.rate, test.warmUp, test.length)
		o.Slices = nil // the backlog alone
		if v := judge(o, limits{growth: 0.005}); v.kept() != test.kept {
			t.Errorf("at %.0f from %s for %s: %v, growth %.0f", test.rate, test.warmUp, test.length, v.Reasons, v.BacklogGrowth)
		}
	}
}

func TestStallsAreTheEnginesOnly(t *testing.T) {
	samples := func(rate float64, sent, done func(k int) uint64) (list []Sample) {
		for k := range 1000 {
			list = append(list, Sample{time.Duration(k) * time.Millisecond, uint64(rate * float64(k) / 1e3), sent(k), done(k)})
		}
		return list
	}
	every := func(k int) uint64 { return uint64(k) * 10 }
	pauses := func(k int) uint64 { // between 300 and 340 ms
		if k > 300 && k < 340 {
			k = 300
		}
		return uint64(k) * 10
	}
	for name, test := range map[string]struct {
		list []Sample
		want int
	}{
		"an engine that pauses":      {samples(10_000, func(k int) uint64 { return every(k) + 5 }, pauses), 1},
		"a generator that pauses":    {samples(10_000, pauses, pauses), 0},
		"no pause":                   {samples(10_000, every, every), 0},
		"a low rate has long gaps":   {samples(20, func(k int) uint64 { return uint64(k / 50) }, func(k int) uint64 { return uint64(max(0, k-60) / 50) }), 0},
		"samples that lack the time": {append(samples(10_000, every, every)[:300:300], samples(10_000, every, every)[340:]...), 0},
	} {
		if got := findStalls(test.list); len(got) != test.want || test.want > 0 && got[0].For != 39*time.Millisecond {
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
		"alone":                     {beat(), time.Second},
		"with short ones between":   {beat(Stall{1300 * time.Millisecond, 6 * time.Millisecond}, Stall{2700 * time.Millisecond, 19 * time.Millisecond}), time.Second},
		"with as long ones between": {beat(Stall{1300 * time.Millisecond, 38 * time.Millisecond}, Stall{2700 * time.Millisecond, 44 * time.Millisecond}), 0},
	} {
		if test.got.Every != test.want || test.got.Typical != 40*time.Millisecond && test.want > 0 {
			t.Errorf("%s: %+v, want one each %s", name, test.got, test.want)
		}
	}
}

func TestJudgeHoldsLatencyAgainstItsLimit(t *testing.T) {
	o, _ := simulated{serve: constantly(1e9)}.observe(t.Context(), 1000, time.Second, 3*time.Second)
	o.Latency.RecordValue(int64(30 * time.Millisecond))
	if v := judge(o, limits{growth: 0.005, latency: 20 * time.Millisecond}); !slices.Equal(v.Reasons, []Reason{LatencyTooHigh}) {
		t.Errorf("%v", v.Reasons)
	}
	if v := judge(o, limits{growth: 0.005, latency: 40 * time.Millisecond}); !v.kept() {
		t.Errorf("%v", v.Reasons)
	}
}

// What hides its backlog, for it counts tuples as done before they are, still shows in the latency.
func TestJudgeSeesLatencyGrow(t *testing.T) {
	o, _ := simulated{serve: constantly(1e9)}.observe(t.Context(), 10_000, time.Second, 3*time.Second)
	for i := range o.Slices {
		o.Slices[i].Median = time.Duration(i) * 2 * time.Millisecond
	}
	if v := judge(o, limits{growth: 0.005}); !slices.Equal(v.Reasons, []Reason{LatencyGrows}) {
		t.Errorf("%v, growth %g", v.Reasons, v.LatencyGrowth)
	}
}

func TestSearchRefusesBadOptions(t *testing.T) {
	good := SearchOptions{Connect: func(int) (Sink, error) { return Discard{}, nil }, Tuples: testTuples(t)}
	for name, spoil := range map[string]func(*SearchOptions){
		"no engine": func(o *SearchOptions) { o.Connect = nil }, "no tuples": func(o *SearchOptions) { o.Tuples = nil },
		"a rate below 0": func(o *SearchOptions) { o.Start = -1 }, "no rate": func(o *SearchOptions) { o.Start = math.NaN() },
		"highest below start": func(o *SearchOptions) { o.Highest = 5 }, "a short trial": func(o *SearchOptions) { o.Trial = time.Millisecond },
		"resolution": func(o *SearchOptions) { o.Resolution = 1e-9 }, "threads": func(o *SearchOptions) { o.Threads = -1 },
	} {
		o := good
		spoil(&o)
		if _, err := NewSearch(o); err == nil {
			t.Errorf("%s was accepted", name)
		} else {
			t.Log(err)
		}
	}
}

// The whole search against a real engine in this process, with a limit that leaves no doubt.
func TestSearchOfARealEngine(t *testing.T) {
	if raceBuild || testing.Short() {
		t.Skip("times what the race detector and emulators slow down")
	}
	var s *Search
	queue := make(chan uint64, 100)
	o := SearchOptions{Start: 500, NoCurve: true, Trial: time.Second, WarmUp: 100 * time.Millisecond, Confirm: 1, Resolution: 0.2, Drain: time.Second, IDs: testIDs,
		Connect: func(int) (Sink, error) {
			return SinkFunc(func(tuples []Tuple) (int, error) {
				for i, tuple := range tuples {
					select {
					case queue <- tuple.ID:
					default:
						return i, nil
					}
				}
				return len(tuples), nil
			}), nil
		}, Tuples: testTuples(t)}
	s, err := NewSearch(o)
	if err != nil {
		t.Fatal(err)
	}
	stop := make(chan struct{})
	defer close(stop)
	go func() { // 2,000 a second, by the clock
		begun, served := time.Now(), 0
		for {
			select {
			case <-stop:
				return
			case id := <-queue:
				due := begun.Add(time.Duration(served) * 500 * time.Microsecond)
				if wait := time.Until(due); wait > 0 {
					time.Sleep(wait)
				} else if wait < -50*time.Millisecond {
					begun, served = time.Now(), 0 // no credit for time without work
				}
				served++
				s.Done(id)
			}
		}
	}()
	r, err := s.Run(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	// How near it comes is a bar, for an idle machine (TestBarSearch in bench). On any machine no more comes out than the engine lets out.
	if r.Sustained > 2400 || len(r.Trials) < 3 {
		t.Errorf("sustained %.0f by %s in %d trials, and the engine does 2000", r.Sustained, r.LimitedBy, len(r.Trials))
	}
	for _, trial := range r.Trials {
		if trial.Check.Lost > 0 && !trial.Cut || trial.Check.Duplicates > 0 {
			t.Errorf("at %.0f: %+v, but the engine loses nothing", trial.Rate, trial.Check)
		}
	}
}
