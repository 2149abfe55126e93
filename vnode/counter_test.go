package vnode

import (
	"fmt"
	"hash/fnv"
	"math"
	"math/big"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/cloudprofiler/cloudprofiler/internal/seed"
)

// bothCounters returns both implementations of one counter.
func bothCounters(t testing.TB, c CounterConfig) (*Counter, *Truth) {
	t.Helper()
	fast, err := NewCounter(c)
	if err != nil {
		t.Fatalf("%+v: %v", c, err)
	}
	truth, err := NewTruth(c)
	if err != nil {
		t.Fatal(err)
	}
	return fast, truth
}

func TestReadingsThatCanBeCheckedByHand(t *testing.T) {
	plain := CounterConfig{Origin: 1000, Start: 50, Quantum_cycles: 1,
		Wander: WanderConfig{Shape: Steady, SegmentLog2: 10}}
	tests := map[string]struct {
		change func(c *CounterConfig)
		want   map[uint64]uint64
	}{
		"offset only": {func(c *CounterConfig) {},
			map[uint64]uint64{1000: 50, 1007: 57, 993: 43, 0: math.MaxUint64 - 949}},
		"half as fast": {func(c *CounterConfig) { c.Rate_2e40 = -1 << 39 },
			map[uint64]uint64{1000: 50, 1001: 50, 1002: 51, 999: 49, 998: 49, 997: 48}},
		"twice as fast": {func(c *CounterConfig) { c.Rate_2e40 = 1 << 40 },
			map[uint64]uint64{1001: 52, 999: 48}},
		"50 ppm": {func(c *CounterConfig) { c.Rate_2e40 = PPM(50) },
			map[uint64]uint64{1_001_000: 1_000_050 + 49, 1_020_001_000: 1_020_000_050 + 50_999}},
		"quantum": {func(c *CounterConfig) { c.Quantum_cycles = 26 },
			map[uint64]uint64{1000: 26, 1001: 26, 1002: 52, 1027: 52, 1028: 78}},
		"steps": {func(c *CounterConfig) { c.Steps = []Step{{1010, 100}, {1020, -70}} },
			map[uint64]uint64{1009: 59, 1010: 160, 1019: 169, 1020: 100, 1021: 101}},
		"wraps": {func(c *CounterConfig) { c.Start = math.MaxUint64 - 1 },
			map[uint64]uint64{1001: math.MaxUint64, 1002: 0, 1003: 1}},
		"wraps within a quantum": {func(c *CounterConfig) {
			c.Start, c.Quantum_cycles = math.MaxUint64-1, 10
		}, map[uint64]uint64{1001: math.MaxUint64 - 5, 1002: 0, 1011: 0, 1012: 10}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			c := plain
			test.change(&c)
			fast, truth := bothCounters(t, c)
			for p, want := range test.want {
				if got := fast.Virtual(p); got != want {
					t.Errorf("Virtual(%d) = %d, want %d", p, got, want)
				}
				if got := truth.Reading(p); got != want {
					t.Errorf("Reading(%d) = %d, want %d", p, got, want)
				}
			}
		})
	}
}

// In one segment of 1,024 cycles the rate grows from 1 to 1 + 2^-8. So in the first u cycles the
// counter advances by u + u²/(2·1024·256).
func TestOneSegmentByHand(t *testing.T) {
	c := CounterConfig{Quantum_cycles: 1, Wander: WanderConfig{
		Shape: Temperature, SegmentLog2: 10, Segments: 1, Window_cycles: 1024, Period_cycles: 2048,
		Settle_cycles: 1, Limit_2e40: rateOne / 1024,
	}}
	rates, err := knotRates(c)
	if err != nil {
		t.Fatal(err)
	}
	slope := new(big.Rat).SetFrac64(int64(rates[1])-int64(rates[0]), rateOne)
	if slope.Sign() == 0 {
		t.Fatal("the temperature did not change")
	}
	fast, truth := bothCounters(t, c)
	for u := range uint64(1025) {
		want := new(big.Rat).SetFrac64(int64(rates[0])*int64(u), rateOne)
		curve := new(big.Rat).SetFrac64(int64(u*u), 2048)
		want.Add(want, curve.Mul(curve, slope))
		if got := truth.Exact(u); got.Cmp(want) != 0 {
			t.Fatalf("Exact(%d) = %v, want %v", u, got, want)
		}
		floor := new(big.Int).Div(want.Num(), want.Denom()).Uint64()
		if got := fast.Virtual(u); got != floor {
			t.Fatalf("Virtual(%d) = %d, want %d", u, got, floor)
		}
	}
}

func TestTheTwoImplementationsAgree(t *testing.T) {
	r := seed.Random(t)
	const queries = 25
	for range *configs / seed.Share() {
		c := randomCounter(r)
		fast, truth := bothCounters(t, c)
		for range queries {
			p := nearReading(r, c)
			if got, want := fast.Virtual(p), truth.Reading(p); got != want {
				t.Fatalf("Virtual(%d) = %d, Truth %d; %+v", p, got, want, c)
			}
		}
	}
}

func TestACounterGoesBackAtNegativeStepsAlone(t *testing.T) {
	r := seed.Random(t)
	for range 2000 / seed.Share() {
		c := randomCounter(r)
		c.Start, c.Origin = 1<<62, 1<<50+c.Origin>>16
		for i := range c.Steps {
			c.Steps[i].At, c.Steps[i].By_cycles = c.Origin+uint64(i)*5000, int64(randomBits(r, 40))
		}
		fast, _ := bothCounters(t, c)
		p := c.Origin - 1000
		last := fast.Virtual(p)
		for range 200 {
			p += randomBits(r, 34)
			v := fast.Virtual(p)
			if v < last {
				t.Fatalf("Virtual(%d) = %d after %d; %+v", p, v, last, c)
			}
			if v%c.Quantum_cycles != 0 {
				t.Fatalf("Virtual(%d) = %d is no multiple of %d", p, v, c.Quantum_cycles)
			}
			last = v
		}
	}
}

func TestInstantsAreAllAndOnlyThoseThatReadSo(t *testing.T) {
	r := seed.Random(t)
	for range 300 / seed.Share() {
		c := randomCounter(r)
		c.Quantum_cycles = 1 + r.Uint64N(60)
		c.Start = uint64(r.IntN(3000)) - 1500 // so that the counter wraps around within the test
		c.Origin = 100_000
		c.Steps = nil
		for at := c.Origin - 900; len(c.Steps) < r.IntN(4); at += 1 + r.Uint64N(700) {
			c.Steps = append(c.Steps, Step{at, either(r, r.Int64N(900))})
		}
		_, truth := bothCounters(t, c)
		const from, until = 99_000, 101_000
		want := map[uint64][]Span{}
		for p := uint64(from); p < until; p++ {
			v := truth.Reading(p)
			if s := want[v]; len(s) > 0 && s[len(s)-1].Last == p-1 {
				s[len(s)-1].Last = p
			} else {
				want[v] = append(s, Span{p, p})
			}
		}
		for v, spans := range want {
			var got []Span
			for _, s := range truth.Instants(v) {
				if s.Last >= from && s.First < until {
					got = append(got, Span{max(s.First, from), min(s.Last, until-1)})
				}
			}
			if !slices.Equal(got, spans) {
				t.Fatalf("Instants(%d) = %v, want %v; %+v", v, got, spans, c)
			}
			if c.Quantum_cycles > 1 && v < math.MaxUint64 && truth.Instants(v+1) != nil {
				t.Fatalf("Instants(%d) between two quanta of %d", v+1, c.Quantum_cycles)
			}
		}
	}
}

func TestInstantsAroundSteps(t *testing.T) {
	for _, test := range []struct {
		steps   []Step
		reading uint64
		want    []Span
	}{
		{nil, 20, []Span{{20, 29}}},
		{[]Step{{25, 1}}, 20, []Span{{20, 28}}},
		{[]Step{{25, 7}}, 30, []Span{{25, 32}}},
		{[]Step{{30, -10}}, 20, []Span{{20, 39}}},
		{[]Step{{31, -10}}, 20, []Span{{20, 29}, {31, 39}}},
		{[]Step{{20, 10}}, 20, nil},
		{[]Step{{0, 10}}, 20, []Span{{10, 19}}},
		{[]Step{{0, 10}, {1, -10}}, 20, []Span{{20, 29}}},
		{nil, 25, nil},
	} {
		_, truth := bothCounters(t, CounterConfig{Quantum_cycles: 10, Steps: test.steps,
			Wander: WanderConfig{Shape: Steady, SegmentLog2: 10}})
		if got := truth.Instants(test.reading); !slices.Equal(got, test.want) {
			t.Errorf("Instants(%d) with steps %v = %v, want %v",
				test.reading, test.steps, got, test.want)
		}
	}
}

func TestInstantsFarOut(t *testing.T) {
	r := seed.Random(t)
	for range 3000 / seed.Share() {
		c := randomCounter(r)
		_, truth := bothCounters(t, c)
		p := nearReading(r, c)
		v := truth.Reading(p)
		found := false
		for _, s := range truth.Instants(v) {
			found = found || s.Contains(p)
			if truth.Reading(s.First) != v || truth.Reading(s.Last) != v {
				t.Fatalf("Instants(%d) has %v, whose ends read %d and %d; %+v",
					v, s, truth.Reading(s.First), truth.Reading(s.Last), c)
			}
			if s.First > 0 && truth.Reading(s.First-1) == v ||
				s.Last < math.MaxUint64 && truth.Reading(s.Last+1) == v {
				t.Fatalf("Instants(%d) has %v, which is not maximal; %+v", v, s, c)
			}
		}
		if !found {
			t.Fatalf("Instants(%d) = %v, want %d among them; %+v", v, truth.Instants(v), p, c)
		}
	}
}

func TestTranslationIsWhatTheOtherCounterReads(t *testing.T) {
	r := seed.Random(t)
	for range 2000 / seed.Share() {
		a, b := randomCounter(r), randomCounter(r)
		b.Origin = a.Origin
		room := (^uint64(0) - b.Origin) >> b.Wander.SegmentLog2
		if uint64(b.Wander.Segments) > room {
			b.Wander = WanderConfig{Shape: Steady, SegmentLog2: 20}
		}
		b.Steps = nil
		if r.IntN(2) == 0 {
			b.Steps = []Step{{a.Origin + r.Uint64N(1<<20), either(r, int64(randomBits(r, 40)))}}
		}
		_, ta := bothCounters(t, a)
		_, tb := bothCounters(t, b)
		p := nearReading(r, a)
		reading := ta.Reading(p)
		spans := ta.Translate(reading, tb)
		for range 5 {
			instants := ta.Instants(reading)
			s := instants[r.IntN(len(instants))]
			q := s.First
			if s.Last > s.First {
				q += r.Uint64N(s.Last - s.First)
			}
			other := tb.Reading(q)
			if !slices.ContainsFunc(spans, func(s Span) bool {
				return s.Contains(other) ||
					s.Last < s.First && (other >= s.First || other <= s.Last)
			}) {
				t.Fatalf("at %d the counters read %d and %d; Translate gives %v\n%+v\n%+v",
					q, reading, other, spans, a, b)
			}
		}
	}
	// This result can be computed by hand. Counter b runs half as fast as counter a. So while a
	// shows one reading, for its quantum of 10 cycles, b shows 5 readings.
	_, ta := bothCounters(t, CounterConfig{Start: 0, Quantum_cycles: 10,
		Wander: WanderConfig{Shape: Steady, SegmentLog2: 10}})
	tb, err := NewTruth(CounterConfig{Start: 100, Rate_2e40: -1 << 39, Quantum_cycles: 1,
		Wander: WanderConfig{Shape: Steady, SegmentLog2: 10}, Steps: []Step{{14, 1000}}})
	if err != nil {
		t.Fatal(err)
	}
	if got, want := ta.Translate(20, tb), []Span{{1110, 1114}}; !slices.Equal(got, want) {
		t.Errorf("Translate(20) = %v, want %v", got, want)
	}
	want := []Span{{105, 106}, {1107, 1109}}
	if got := ta.Translate(10, tb); !slices.Equal(got, want) {
		t.Errorf("Translate(10) = %v, want %v", got, want)
	}
}

// bruteWander returns the largest wander in windows of one length that begin at random places. It
// looks at many instants in each window.
func bruteWander(
	r *rand.Rand, rate func(p uint64) (lo, hi float64), from, until, window uint64,
) float64 {
	most := 0.0
	for range 300 / seed.Share() {
		start := from + r.Uint64N(until-from)
		least, greatest := math.Inf(1), 0.0
		for i := range uint64(200) {
			lo, hi := rate(start + window/199*i)
			least, greatest = min(least, hi), max(greatest, lo)
		}
		if greatest > least {
			most = max(most, (greatest-least)/(greatest+least))
		}
	}
	return most
}

func TestTrueWanderNeverExceedsTheDeclared(t *testing.T) {
	r := seed.Random(t)
	reached := map[Shape]bool{}
	for range 1500 / seed.Share() {
		c := randomCounter(r)
		c.Steps = nil
		c.Origin >>= 8
		c.Wander = randomWander(r, 1+r.IntN(120))
		c.Wander.Limit_2e40 = 1 + r.Int64N(PPM(40))
		halveLimit(&c)
		truth, err := NewTruth(c)
		if err != nil {
			t.Fatal(err)
		}
		limit := c.Wander.Limit_2e40
		if c.Wander.Shape == Steady {
			limit = 0
		}
		got := truth.Wander_2e40(c.Wander.Window_cycles)
		if got > uint64(limit) {
			t.Fatalf("wander %d over a limit of %d; %+v", got, limit, c)
		}
		if limit > 1000 && got > uint64(limit)*99/100 {
			reached[c.Wander.Shape] = true
		}
		rate := func(p uint64) (float64, float64) {
			lo, hi := truth.rateAround(p)
			return float64(lo), float64(hi)
		}
		span := uint64(c.Wander.Segments+1) << c.Wander.SegmentLog2
		brute := bruteWander(r, rate, c.Origin, c.Origin+span, c.Wander.Window_cycles)
		if brute*rateOne > float64(got)+1 {
			t.Fatalf("a window has a wander of %v, the limit of all is said to be %d; %+v",
				brute*rateOne, got, c)
		}
	}
	for _, shape := range []Shape{Sine, Walk, Temperature} {
		if !reached[shape] {
			t.Errorf("no %s came within 1 %% of its limit: it would test nothing", shape)
		}
	}
}

func TestWandersOfTwoNodesAdd(t *testing.T) {
	r := seed.Random(t)
	for range 400 / seed.Share() {
		window := uint64(1)<<24 + r.Uint64N(1<<26)
		random := func() CounterConfig {
			c := randomCounter(r)
			c.Steps = nil
			c.Origin = 1<<40 + r.Uint64N(1<<25)
			c.Wander = randomWander(r, 1+r.IntN(60))
			c.Wander.SegmentLog2 = 20 + r.IntN(4)
			// PairWander_2e40 widens each window until it begins and ends at a knot. So allow for
			// longer windows.
			c.Wander.Window_cycles = window + 2<<24
			c.Wander.Period_cycles = 1<<26 + r.Uint64N(1<<30)
			c.Wander.Limit_2e40 = 1 + r.Int64N(PPM(20))
			halveLimit(&c)
			return c
		}
		a, b := random(), random()
		ta, errA := NewTruth(a)
		tb, errB := NewTruth(b)
		if errA != nil || errB != nil {
			t.Fatal(errA, errB)
		}
		got := PairWander_2e40(ta, tb, window)
		sum := uint64(0)
		for _, c := range []CounterConfig{a, b} {
			if c.Wander.Shape != Steady {
				sum += uint64(c.Wander.Limit_2e40)
			}
		}
		if got > sum+4 {
			t.Fatalf("relative wander %d, limits add up to %d\n%+v\n%+v", got, sum, a, b)
		}
		ratio := func(p uint64) (float64, float64) {
			aLo, aHi := ta.rateAround(p)
			bLo, bHi := tb.rateAround(p)
			return float64(aLo) / float64(bHi), float64(aHi) / float64(bLo)
		}
		brute := bruteWander(r, ratio, 1<<40, 1<<40+1<<30, window)
		if brute*rateOne > float64(got)+1 {
			t.Fatalf("a window has a relative wander of %v, the limit of all is said to be "+
				"%d\n%+v\n%+v", brute*rateOne, got, a, b)
		}
	}
}

func TestTheIntegerSineIsOne(t *testing.T) {
	for turn := uint64(0); turn < 1<<32; turn += 1<<20 + 12345 {
		want := math.Sin(2*math.Pi*float64(turn)/(1<<32)) * (1 << 30)
		if got := float64(sine(uint32(turn))); math.Abs(got-want) > 0.0004*(1<<30) {
			t.Fatalf("sine of %v turns = %v, want %v",
				float64(turn)/(1<<32), got/(1<<30), want/(1<<30))
		}
	}
}

func TestSplitMixIsTheKnownOne(t *testing.T) {
	s := splitMix(1234567)
	for _, want := range []uint64{6457827717110365317, 3203168211198807973, 9817491932198370423,
		4593380528125082431, 16408922859458223821} {
		if got := s.next(); got != want {
			t.Fatalf("next() = %d, want %d", got, want)
		}
	}
}

// One configuration gives the same counter in every version of the program and on every
// architecture. This is needed because runs are analyzed elsewhere, and perhaps later.
func TestCountersAreTheSameEverywhere(t *testing.T) {
	want := map[Shape]uint64{Steady: 0xe9ee2248587c53ee, Sine: 0x75c3cba423bfd1f2,
		Walk: 0x4b60dccf680dd465, Temperature: 0x3def1542272a239f}
	for shape, sum := range want {
		c := CounterConfig{Origin: 1 << 40, Start: 1 << 62, Rate_2e40: PPM(-37.5),
			Quantum_cycles: 26, Wander: WanderConfig{
				Shape: shape, Limit_2e40: PPM(0.5), Window_cycles: 52_000_000_000, SegmentLog2: 28,
				Segments:      1000,
				Period_cycles: 78_000_000_000, Settle_cycles: 13_000_000_000, Seed: 42,
			}, Steps: []Step{{1<<40 + 1<<35, 1_000_003}}}
		fast, err := NewCounter(c)
		if err != nil {
			t.Fatal(err)
		}
		h := fnv.New64a()
		for p := c.Origin - 1<<30; p < c.Origin+1010<<28; p += 123_456_789 {
			fmt.Fprintln(h, fast.Virtual(p))
		}
		if got := h.Sum64(); got != sum {
			t.Errorf("readings of a %s have the sum %#x, want %#x", shape, got, sum)
		}
	}
}

func benchmarkCounter(b *testing.B) (*Counter, uint64) {
	c := CounterConfig{Origin: 1 << 40, Start: 1 << 62, Rate_2e40: PPM(-37.5), Quantum_cycles: 26,
		Wander: WanderConfig{
			Shape: Walk, Limit_2e40: PPM(0.5), Window_cycles: 52_000_000_000, SegmentLog2: 28,
			Segments: 36_000, Seed: 42,
		}}
	fast, err := NewCounter(c)
	if err != nil {
		b.Fatal(err)
	}
	return fast, c.Origin
}

var sink uint64

func BenchmarkVirtualInOrder(b *testing.B) {
	fast, p := benchmarkCounter(b)
	for b.Loop() {
		p += 2600
		sink += fast.Virtual(p)
	}
}

func BenchmarkVirtualAtRandom(b *testing.B) {
	fast, origin := benchmarkCounter(b)
	r := splitMix(1)
	for b.Loop() {
		sink += fast.Virtual(origin + r.next()>>21)
	}
}

func BenchmarkTruthReading(b *testing.B) {
	truth, err := NewTruth(CounterConfig{Origin: 1 << 40, Quantum_cycles: 26, Wander: WanderConfig{
		Shape: Walk, Limit_2e40: PPM(0.5), Window_cycles: 52_000_000_000, SegmentLog2: 28,
		Segments: 36_000, Seed: 42}})
	if err != nil {
		b.Fatal(err)
	}
	r := splitMix(1)
	b.Run("reading", func(b *testing.B) {
		for b.Loop() {
			sink += truth.Reading(1<<40 + r.next()>>21)
		}
	})
	b.Run("instants", func(b *testing.B) {
		for b.Loop() {
			truth.Instants(26 * (r.next() >> 26))
		}
	})
}
