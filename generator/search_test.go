package generator

import (
	"context"
	"math"
	"slices"
	"testing"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/cloudprofiler/cloudprofiler/asm"
	"github.com/cloudprofiler/cloudprofiler/internal/seed"
)

// simulatedEngine is a queue that a server empties, in steps of a millisecond.
type simulatedEngine struct {
	serve    server
	loses    func(rate float64) bool
	capacity float64 // highest rate of the generator; 0: no limit
}

// observe computes what a trial of the engine would observe. It does not wait.
func (e simulatedEngine) observe(
	_ context.Context, rate float64, warmUp, length time.Duration,
) (Observation, error) {
	o := Observation{
		Rate: rate, WarmUp: warmUp, Length: length,
		Latency: hdrhistogram.New(1, longestLatency_ns, 3),
	}
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
		sample := Sample{at, uint64(rate * at.Seconds()), uint64(sent), uint64(done)}
		o.Samples = append(o.Samples, sample)
		if at%latencySlice == 0 {
			latency := time.Duration(queue / 100_000 * 1e9)
			o.Slices = append(o.Slices, LatencySlice{at - latencySlice, latency})
		}
		if sample.backlog() > rate/2 && at > warmUp+length/6 {
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

func (e simulatedEngine) search(t *testing.T, o SearchOptions) SearchResult {
	t.Helper()
	o.Connect, o.Tuples = intoNothing, testTuples(t)
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

// intoNothing connects to no engine.
func intoNothing(int) (Sink, error) { return Discard{}, nil }

// A server returns how many tuples a second it serves at a moment.
type server func(at time.Duration, rate, queued float64) float64

func constantly(rate float64) server {
	return func(time.Duration, float64, float64) float64 { return rate }
}

// stallingServer is a server that serves nothing in the first 50 ms of each second.
func stallingServer(at time.Duration, _, _ float64) float64 {
	if at%time.Second < 50*time.Millisecond {
		return 0
	}
	return 100_000
}

func TestSearchFindsKnownLimits(t *testing.T) {
	breaksDown := func(_ time.Duration, _, queued float64) float64 {
		if queued > 2000 {
			return 20_000
		}
		return 70_000
	}
	losesAbove := func(rate float64) bool { return rate > 40_000 }
	tests := map[string]struct {
		engine simulatedEngine
		o      SearchOptions
		want   float64
		by     string
		why    Reason
		stall  time.Duration
	}{
		"a steady server": {
			engine: simulatedEngine{serve: constantly(100_000)},
			want:   100_000, by: ByEngine, why: BacklogGrows,
		},
		"a slow one": {
			engine: simulatedEngine{serve: constantly(333)},
			want:   333, by: ByEngine, why: BacklogGrows,
		},
		"one that stalls 50 ms each second": {
			engine: simulatedEngine{serve: stallingServer},
			want:   95_000, by: ByEngine, why: BacklogGrows, stall: 50 * time.Millisecond,
		},
		"one that breaks down under load": {
			engine: simulatedEngine{serve: breaksDown},
			want:   70_000, by: ByEngine, why: BacklogGrows,
		},
		"one that loses": {
			engine: simulatedEngine{serve: constantly(1e6), loses: losesAbove},
			want:   40_000, by: ByEngine, why: TuplesLost,
		},
		"faster than the generator": {
			engine: simulatedEngine{serve: constantly(1e9), capacity: 2e6},
			want:   ceilingShare * 2e6, by: ByGenerator,
		},
		"faster than wanted": {
			engine: simulatedEngine{serve: constantly(1e9)}, o: SearchOptions{Highest: 50_000},
			want: 50_000, by: ByHighest,
		},
		"coarse": {
			engine: simulatedEngine{serve: constantly(123_456)}, o: SearchOptions{Resolution: 0.1},
			want: 123_456, by: ByEngine, why: BacklogGrows,
		},
		"dead": {
			engine: simulatedEngine{serve: constantly(0)},
			want:   0, by: ByNothing, why: NothingSeen,
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			r := test.engine.search(t, test.o)
			tolerance := max(0.011, test.o.Resolution*1.1)
			if r.LimitedBy != test.by || math.Abs(r.Sustained-test.want) > tolerance*test.want {
				t.Errorf("sustained %.0f by %s, want %.0f by %s\n%s",
					r.Sustained, r.LimitedBy, test.want, test.by, r.Answer())
			}
			// If the backlog grows, the latency grows too. If one of them is just within its limit,
			// the search may name only the other.
			if test.why != "" && !slices.Contains(r.Why, test.why) &&
				!(test.why == BacklogGrows && slices.Contains(r.Why, LatencyGrows)) {
				t.Errorf("why %v, want %s", r.Why, test.why)
			}
			s := r.Stalls
			near := (s.Typical-test.stall).Abs() <= 3*time.Millisecond &&
				(s.Every-time.Second).Abs() <= 10*time.Millisecond
			if test.stall > 0 && !near {
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

// If a rate is sustained in a short trial but not in a long trial, a search must not report this
// rate.
func TestSearchForgetsWhatIsNotConfirmed(t *testing.T) {
	// The queue stays short for three seconds, then grows.
	engine := simulatedEngine{serve: func(at time.Duration, rate, _ float64) float64 {
		if at > 3*time.Second && rate > 30_000 {
			return rate * 0.9
		}
		return 1e6
	}}
	r := engine.search(t, SearchOptions{Start: 160_000})
	if r.Sustained > 30_000*1.001 || r.Sustained < 29_000 {
		t.Errorf("sustained %.0f, want 30,000: %s", r.Sustained, r.Answer())
	}
}

// If a trial fails while this machine is busy, the machine may have delayed the engine, so the
// search repeats the trial once. It does not repeat other trials.
func TestSearchTriesAgainWhatWasDisturbed(t *testing.T) {
	for name, test := range map[string]struct {
		marks []Marked
		want  float64
	}{
		"disturbed":             {[]Marked{{Mark: Late}}, 100_000},
		"not disturbed":         {nil, 0},
		"the generator's fault": {nil, 100_000},
	} {
		engine := simulatedEngine{serve: constantly(100_000)}
		s, err := NewSearch(SearchOptions{
			Connect: intoNothing, Tuples: testTuples(t),
		})
		if err != nil {
			t.Fatal(err)
		}
		tried := map[float64]int{}
		s.measureCeiling = func(context.Context) (float64, error) { return 10e6, nil }
		s.try = func(
			ctx context.Context, rate float64, warmUp, length time.Duration,
		) (Observation, error) {
			o, err := engine.observe(ctx, rate, warmUp, length)
			if tried[rate]++; rate <= 50_000 {
				return o, err
			}
			if name == "the generator's fault" {
				if tried[rate] <= generatorRetries {
					slow := simulatedEngine{serve: constantly(100_000), capacity: rate / 2}
					return slow.observe(ctx, rate, warmUp, length)
				}
			} else if tried[rate] == 1 {
				o.Check.Duplicates, o.Sender.Marks = 1, test.marks
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

// If the generator falls behind at a rate below its measured ceiling, the search names the
// generator as the limit, and not the engine.
func TestSearchNamesAGeneratorThatFallsBehind(t *testing.T) {
	s, err := NewSearch(SearchOptions{
		Connect: intoNothing, Tuples: testTuples(t),
	})
	if err != nil {
		t.Fatal(err)
	}
	s.measureCeiling = func(context.Context) (float64, error) { return 10e6, nil }
	s.try = simulatedEngine{serve: constantly(1e9), capacity: 50_000}.observe
	r, err := s.Run(t.Context())
	if err != nil || r.LimitedBy != ByGenerator || math.Abs(r.Sustained-50_000) > 600 ||
		!slices.Contains(r.Why, Generator) {
		t.Errorf("sustained %.0f, limited by %s, %v, %v", r.Sustained, r.LimitedBy, r.Why, err)
	}
}

// If the limit shows at once, a search needs few trials: three to bracket the limit, one on each
// side of it, and the confirmations. Then come the trials of the curve, at lower rates.
func TestSearchNeedsFewTrials(t *testing.T) {
	r := simulatedEngine{serve: constantly(100_000)}.search(t, SearchOptions{})
	phases, rates := map[string]int{}, []float64{}
	for _, trial := range r.Trials {
		if phases[trial.Phase]++; trial.Phase == "curve" {
			rates = append(rates, math.Round(100*trial.Rate/r.Sustained)/100)
		}
	}
	if phases["bracket"] != 3 || phases["bisect"] != 2 || phases["confirm"] != 3 ||
		!slices.Equal(rates, curveShares) {
		t.Errorf("trials %v, the curve at %v", phases, rates)
	}
	r = simulatedEngine{serve: constantly(100_000)}.search(t, SearchOptions{NoCurve: true})
	if len(r.Trials) != 8 {
		t.Errorf("%d trials without the curve, want 8", len(r.Trials))
	}
}

// If a trial exceeds the limit on latency, its rate is not sustained. This engine loses nothing at
// any rate, but above 70,000 tuples a second its latency exceeds the limit.
func TestSearchKeepsToALatency(t *testing.T) {
	s, err := NewSearch(SearchOptions{
		Connect: intoNothing, Tuples: testTuples(t),
		Latency: 20 * time.Millisecond,
	})
	if err != nil {
		t.Fatal(err)
	}
	s.measureCeiling = func(context.Context) (float64, error) { return 10e6, nil }
	lengths := map[[2]time.Duration]int{}
	s.try = func(
		ctx context.Context, rate float64, warmUp, length time.Duration,
	) (Observation, error) {
		lengths[[2]time.Duration{warmUp, length}]++
		o, err := simulatedEngine{serve: constantly(1e9)}.observe(ctx, rate, warmUp, length)
		if rate > 70_000 {
			o.Latency.RecordValue(int64(30 * time.Millisecond))
		}
		return o, err
	}
	r, err := s.Run(t.Context())
	if err != nil || math.Abs(r.Sustained-70_000) > 710 || !slices.Contains(r.Why, LatencyTooHigh) {
		t.Errorf("sustained %.0f, %v, %v", r.Sustained, r.Why, err)
	}
	// Reported results come from trials of full length, after a full warm-up. The trials that
	// bracket the limit, and those of the curve, are short.
	full := lengths[[2]time.Duration{time.Second, 5 * time.Second}]
	short := lengths[[2]time.Duration{500 * time.Millisecond, 5 * time.Second / 3}]
	if full < 5 || full+short != len(r.Trials) {
		t.Errorf("warm-ups and lengths of %d trials: %v", len(r.Trials), lengths)
	}
}

func TestOutletCountsTheLatencyOfWhatIsJudged(t *testing.T) {
	ring, now := newDueRing(), asm.Counter()
	out := &outlet{
		rings: map[uint64]*dueRing{}, first: map[uint64]uint64{}, hz: 1e9, latency: newLatencies(),
		start: now - 1000, from: now - 500,
	}
	out.beginThread(5, ring)
	ring.put(5, now-600) // due in the warm-up
	ring.put(6, now-400)
	out.recordTuples([]uint64{5, 6, 4})
	if n := out.latency.TotalCount(); n != 1 || out.done.Load() != 2 || out.stale != 1 {
		t.Errorf("%d latencies, %d came out, %d are of an earlier trial; want 1, 2 and 1",
			n, out.done.Load(), out.stale)
	}
}

// A latency begins when a tuple was due, even if the tuple was sent later.
func TestTrialCountsLatencyFromDue(t *testing.T) {
	var s *Search
	var begun time.Time
	engine := SinkFunc(func(tuples []Tuple) (int, error) {
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
	})
	s, err := NewSearch(SearchOptions{
		Tuples:  testTuples(t),
		IDs:     testIDs,
		Connect: func(int) (Sink, error) { return engine, nil },
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.connect(); err != nil {
		t.Fatal(err)
	}
	defer s.close()
	o, err := s.tryRate(t.Context(), 2000, 0, 100*time.Millisecond)
	// Half of the tuples were due in the first 50 ms, and no tuple came out in the first 60 ms.
	if most := time.Duration(o.Latency.ValueAtQuantile(55)); most < 9*time.Millisecond {
		t.Errorf("45 of 100 tuples came out within %s, but half of them were refused for longer",
			most)
	}
	if err != nil || o.Latency.Max() < int64(59*time.Millisecond) ||
		o.Latency.TotalCount() != int64(o.Check.Received) {
		t.Errorf("largest latency %s of %d tuples, want 60 ms and more of %d, %v",
			time.Duration(o.Latency.Max()), o.Latency.TotalCount(), o.Check.Received, err)
	}
}

// If a sink or the caller of Done makes a mark, the search reports the mark at once, and again in
// its result.
func TestSearchIsMarked(t *testing.T) {
	says := newNoticed()
	s, err := NewSearch(SearchOptions{
		Connect: intoNothing, Tuples: testTuples(t),
		Notice: says.say,
	})
	if err != nil {
		t.Fatal(err)
	}
	s.measureCeiling = func(context.Context) (float64, error) { return 10e6, nil }
	s.try = func(
		ctx context.Context, rate float64, warmUp, length time.Duration,
	) (Observation, error) {
		s.Mark(Malformed, "what came back is no tuple")
		return simulatedEngine{serve: constantly(100_000)}.observe(ctx, rate, warmUp, length)
	}
	r, err := s.Run(t.Context())
	says.waitForMark(t, Malformed)
	if err != nil || len(r.Marks) != 1 || r.Marks[0].Count != uint64(len(r.Trials)) {
		t.Errorf("%d trials, marks %v, %v", len(r.Trials), r.Marks, err)
	}
}

func TestSearchRefusesBadOptions(t *testing.T) {
	good := SearchOptions{
		Connect: intoNothing, Tuples: testTuples(t),
	}
	for name, spoil := range map[string]func(*SearchOptions){
		"no engine":           func(o *SearchOptions) { o.Connect = nil },
		"no tuples":           func(o *SearchOptions) { o.Tuples = nil },
		"a rate below 0":      func(o *SearchOptions) { o.Start = -1 },
		"no rate":             func(o *SearchOptions) { o.Start = math.NaN() },
		"highest below start": func(o *SearchOptions) { o.Highest = 5 },
		"a short trial":       func(o *SearchOptions) { o.Trial = time.Millisecond },
		"resolution":          func(o *SearchOptions) { o.Resolution = 1e-9 },
		"threads":             func(o *SearchOptions) { o.Threads = -1 },
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

// A whole search runs against a real engine in this process. Other load on the machine may lower
// the rate that the search finds, but cannot raise it far above the engine's limit.
func TestSearchOfARealEngine(t *testing.T) {
	if seed.Race || testing.Short() {
		t.Skip("times what the race detector and emulators slow down")
	}
	var s *Search
	queue := make(chan uint64, 100)
	engine := SinkFunc(func(tuples []Tuple) (int, error) {
		for i, tuple := range tuples {
			select {
			case queue <- tuple.ID:
			default:
				return i, nil
			}
		}
		return len(tuples), nil
	})
	s, err := NewSearch(SearchOptions{
		Start:      500,
		NoCurve:    true,
		Trial:      time.Second,
		WarmUp:     100 * time.Millisecond,
		Confirm:    1,
		Resolution: 0.2,
		Drain:      time.Second,
		IDs:        testIDs,
		Connect:    func(int) (Sink, error) { return engine, nil },
		Tuples:     testTuples(t),
	})
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
					begun, served = time.Now(), 0 // time without work does not count
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
	// TestBarSearch in bench measures, on an idle machine, how close a search comes to the limit.
	// On any machine, the result cannot be far above the rate at which the engine lets tuples out.
	if r.Sustained > 2400 || len(r.Trials) < 3 {
		t.Errorf("sustained %.0f by %s in %d trials, and the engine does 2000",
			r.Sustained, r.LimitedBy, len(r.Trials))
	}
	for _, trial := range r.Trials {
		if trial.Check.Lost > 0 && !trial.Cut || trial.Check.Duplicates > 0 {
			t.Errorf("at %.0f: %+v, but the engine loses nothing", trial.Rate, trial.Check)
		}
	}
}
