package vnode

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/cloudprofiler/cloudprofiler/internal/seed"
)

const second = 1_000_000_000

func bothClocks(t testing.TB, c RealtimeConfig) (*Realtime, *RealtimeTruth) {
	t.Helper()
	fast, err := NewRealtime(c)
	if err != nil {
		t.Fatalf("%+v: %v", c, err)
	}
	truth, err := NewRealtimeTruth(c)
	if err != nil {
		t.Fatal(err)
	}
	return fast, truth
}

func TestTimesThatCanBeCheckedByHand(t *testing.T) {
	tests := map[string]struct {
		config RealtimeConfig
		want   map[int64]int64
	}{
		"offset": {RealtimeConfig{Origin_ns: 100, Offset_ns: -7},
			map[int64]int64{0: -7, 99: 92, 100: 93, 5000: 4993}},
		"500 ppm fast": {RealtimeConfig{Adjustments: []Adjustment{{second, 500 * 65536, 10_000}}},
			map[int64]int64{second: second, 2 * second: 2*second + 500_000,
				second + 1999: second + 1999, second + 2000: second + 2001}},
		"500 ppm slow": {RealtimeConfig{Adjustments: []Adjustment{{second, -500 * 65536, 10_000}}},
			map[int64]int64{second + 1: second, second + 2000: second + 1999,
				second + 2001: second + 1999, second + 2002: second + 2000}},
		"tick 11000, then back": {RealtimeConfig{Adjustments: []Adjustment{{second, 0, 11_000},
			{2 * second, 0, 10_000}}},
			map[int64]int64{second + 10: second + 11, 2 * second: 2*second + second/10,
				3 * second: 3*second + second/10}},
		"frequency and tick": {RealtimeConfig{Adjustments: []Adjustment{{0, 100 * 65536, 9_999}}},
			map[int64]int64{second: second}},
		"slew of 1 ms at 500 ppm": {RealtimeConfig{Slews: []Slew{{second, 1_000_000, 500}}},
			map[int64]int64{second: second, 2 * second: 2*second + 500_000,
				3 * second: 3*second + 1_000_000, 4 * second: 4*second + 1_000_000}},
		"slew back": {RealtimeConfig{Slews: []Slew{{second, -1_000_000, 1000}}},
			map[int64]int64{second: second, second + 500: second + 499,
				2 * second: 2*second - 1_000_000, 9 * second: 9*second - 1_000_000}},
		"two slews at once": {RealtimeConfig{Slews: []Slew{{second, 1_000_000, 500},
			{second, 250_000, 250}}},
			map[int64]int64{2 * second: 2*second + 750_000, 3 * second: 3*second + 1_250_000}},
		"steps": {RealtimeConfig{Steps: []RealtimeStep{{second, 30}, {2 * second, -50}}},
			map[int64]int64{second - 1: second - 1, second: second + 30,
				2*second - 1: 2*second + 29, 2 * second: 2*second - 20}},
		"step at a change of rate": {RealtimeConfig{Adjustments: []Adjustment{{second, 0, 11_000}},
			Steps: []RealtimeStep{{second, 5}}},
			map[int64]int64{second: second + 5, second + 10: second + 16}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			fast, truth := bothClocks(t, test.config)
			for x, want := range test.want {
				if got := fast.Virtual(x); got != want {
					t.Errorf("Virtual(%d) = %d, want %d", x, got, want)
				}
				if got := truth.Reading(x); got != want {
					t.Errorf("Reading(%d) = %d, want %d", x, got, want)
				}
			}
		})
	}
}

func randomRealtime(r *rand.Rand) RealtimeConfig {
	c := RealtimeConfig{Origin_ns: int64(randomBits(r, 60)),
		Offset_ns: either(r, int64(randomBits(r, 61)))}
	at := c.Origin_ns
	next := func() int64 { at += int64(1 + randomBits(r, 40)); return at }
	if r.IntN(3) == 0 {
		at--
	}
	for range r.IntN(6) {
		c.Adjustments = append(c.Adjustments,
			Adjustment{next(), either(r, int64(randomBits(r, 25))%(mostFreq+1)),
				9000 + r.Int64N(2001)})
	}
	at = c.Origin_ns
	for range r.IntN(4) {
		c.Slews = append(c.Slews, Slew{next(), either(r, int64(randomBits(r, 30))),
			[]int64{500, 1000, 1, 250, 64, 40}[r.IntN(6)]})
	}
	at = c.Origin_ns - 1
	for range r.IntN(4) {
		c.Steps = append(c.Steps, RealtimeStep{next(), either(r, int64(randomBits(r, 59)))})
	}
	return c
}

func nearTime(r *rand.Rand, c RealtimeConfig) int64 {
	jitter := either(r, int64(randomBits(r, 5)))
	var at []int64
	for _, a := range c.Adjustments {
		at = append(at, a.At_ns)
	}
	for _, s := range c.Slews {
		at = append(at, s.At_ns, s.At_ns+s.length_ns())
	}
	for _, s := range c.Steps {
		at = append(at, s.At_ns)
	}
	if len(at) > 0 && r.IntN(2) == 0 {
		return max(0, at[r.IntN(len(at))]+jitter)
	}
	return min(mostTime_ns, max(0, c.Origin_ns+either(r, int64(randomBits(r, 61)))))
}

func TestTheTwoClocksAgree(t *testing.T) {
	r := seed.Random(t)
	for range *configs / 2 / seed.Share() {
		c := randomRealtime(r)
		fast, truth := bothClocks(t, c)
		for range 25 {
			x := nearTime(r, c)
			if got, want := fast.Virtual(x), truth.Reading(x); got != want {
				t.Fatalf("Virtual(%d) = %d, Truth %d; %+v", x, got, want, c)
			}
		}
	}
}

func TestInstantsOfTheClock(t *testing.T) {
	r := seed.Random(t)
	for range 300 / seed.Share() {
		c := randomRealtime(r)
		c.Steps = nil
		for at := c.Origin_ns + 3; len(c.Steps) < r.IntN(4); at += 1 + r.Int64N(300) {
			c.Steps = append(c.Steps, RealtimeStep{at, either(r, r.Int64N(400))})
		}
		_, truth := bothClocks(t, c)
		want := map[int64][]TimeSpan{}
		from, until := max(0, c.Origin_ns-200), c.Origin_ns+1000
		for x := from; x < until; x++ {
			y := truth.Reading(x)
			if s := want[y]; len(s) > 0 && s[len(s)-1].Last_ns == x-1 {
				s[len(s)-1].Last_ns = x
			} else {
				want[y] = append(s, TimeSpan{x, x})
			}
		}
		n := 0
		for y, spans := range want {
			if n++; n > 100 {
				break
			}
			var got []TimeSpan
			for _, s := range truth.Instants(y) {
				if s.Last_ns >= from && s.First_ns < until {
					got = append(got, TimeSpan{max(s.First_ns, from), min(s.Last_ns, until-1)})
				}
			}
			if !slices.Equal(got, spans) {
				t.Fatalf("Instants(%d) = %v, want %v; %+v", y, got, spans, c)
			}
		}
	}
}

func TestClockInstantsAroundSteps(t *testing.T) {
	slow := []Adjustment{{0, 0, 9_000}} // at 1000, 1001 and 1002 the clock shows 900, 900 and 901
	for _, test := range []struct {
		steps   []RealtimeStep
		reading int64
		want    []TimeSpan
	}{
		{nil, 900, []TimeSpan{{1000, 1001}}},
		// A step by 0 ns does not split a span.
		{[]RealtimeStep{{1001, 0}}, 900, []TimeSpan{{1000, 1001}}},
		{[]RealtimeStep{{1002, -1}}, 900, []TimeSpan{{1000, 1002}}},
		{[]RealtimeStep{{1005, -4}}, 900, []TimeSpan{{1000, 1001}, {1005, 1005}}},
		{[]RealtimeStep{{1001, 7}}, 902, nil},
		{[]RealtimeStep{{0, 7}}, 907, []TimeSpan{{1000, 1001}}},
	} {
		_, truth := bothClocks(t, RealtimeConfig{Adjustments: slow, Steps: test.steps})
		if got := truth.Instants(test.reading); !slices.Equal(got, test.want) {
			t.Errorf("Instants(%d) with steps %v = %v, want %v",
				test.reading, test.steps, got, test.want)
		}
	}
}

func TestWhatAdjtimexSays(t *testing.T) {
	c := RealtimeConfig{
		Adjustments: []Adjustment{{second, 100 * 65536, 10_000}, {2 * second, 0, 11_000}},
		Slews:       []Slew{{3 * second, 1_000_000, 500}, {3 * second, -400_000, 100}},
	}
	fast, _ := bothClocks(t, c)
	still := Timex{Tick_us: 10_000}
	for _, test := range []struct {
		at       int64
		physical Timex
		want     Timex
	}{
		{0, still, Timex{0, 10_000, 0}},
		{0, Timex{7, 10_001, -5}, Timex{7, 10_001, -5}},
		{second - 1, still, Timex{0, 10_000, 0}},
		{second, still, Timex{100 * 65536, 10_000, 0}},
		// Frequencies of -50 ppm and 100 ppm have a product of -0.005 ppm.
		{second, Timex{-50 * 65536, 10_000, 3}, Timex{50*65536 - 328, 10_000, 3}},
		{2 * second, still, Timex{0, 11_000, 0}},
		// The tick makes the clock a tenth faster, so 100 ppm become 110 ppm.
		{2 * second, Timex{100 * 65536, 10_000, 0}, Timex{110 * 65536, 11_000, 0}},
		// The two ticks give 1.1 · 0.9 = 0.99.
		{2 * second, Timex{0, 9_000, 0}, Timex{-10_000 * 65536, 10_000, 0}},
		{3*second - 1, still, Timex{0, 11_000, 0}},
		{3 * second, still, Timex{0, 11_000, 600_000}},
		// At this time less than a nanosecond of either slew is done.
		{3*second + 1999, still, Timex{0, 11_000, 600_000}},
		{3*second + 2000, still, Timex{0, 11_000, 599_999}},
		{4 * second, still, Timex{0, 11_000, 500_000 - 300_000}},
		{5 * second, still, Timex{0, 11_000, -200_000}},
		{7 * second, still, Timex{0, 11_000, 0}},
		{9 * second, still, Timex{0, 11_000, 0}},
	} {
		if got := fast.Timex(test.at, test.physical); got != test.want {
			t.Errorf("Timex(%d, %+v) = %+v, want %+v", test.at, test.physical, got, test.want)
		}
	}
}

// The virtual clock moves at the rate that Timex reports. Cloudprofiler assumes this of a clock
// when it converts stamps.
func TestTheClockMovesAsAdjtimexSays(t *testing.T) {
	r := seed.Random(t)
	for range 2000 / seed.Share() {
		c := randomRealtime(r)
		c.Slews, c.Steps = nil, nil
		fast, _ := bothClocks(t, c)
		x := nearTime(r, c)
		length := int64(1 + randomBits(r, 40))
		says := fast.Timex(x, Timex{Tick_us: 10_000})
		if says != fast.Timex(x+length, Timex{Tick_us: 10_000}) {
			continue
		}
		changed := slices.ContainsFunc(c.Adjustments,
			func(a Adjustment) bool { return a.At_ns > x && a.At_ns <= x+length })
		if changed {
			continue
		}
		went := fast.Virtual(x+length) - fast.Virtual(x)
		ppm16 := float64(says.Freq) + float64(says.Tick_us-10_000)*100*65536
		want := float64(length) * (1 + ppm16/65536e6)
		if d := float64(went) - want; d < -2 || d > 2 {
			t.Fatalf("from %d for %d ns the clock went %d ns, adjtimex (%+v) says %v; %+v",
				x, length, went, says, want, c)
		}
	}
}

func TestStepsThatATimerReports(t *testing.T) {
	fast, _ := bothClocks(t, RealtimeConfig{Steps: []RealtimeStep{{100, 5}, {200, -5}, {201, 1}}})
	for _, test := range []struct {
		after, until int64
		want         int
	}{{0, 99, 0}, {0, 100, 1}, {100, 199, 0}, {99, 200, 2}, {199, 500, 2}, {201, 500, 0}} {
		if got := fast.Stepped(test.after, test.until); got != test.want {
			t.Errorf("Stepped(%d, %d) = %d, want %d", test.after, test.until, got, test.want)
		}
	}
}

func BenchmarkRealtime(b *testing.B) {
	c := RealtimeConfig{Origin_ns: 1 << 60, Offset_ns: 12345,
		Adjustments: []Adjustment{{1<<60 + second, 31415, 10_000}, {1<<60 + 9*second, 0, 10_833}}}
	fast, err := NewRealtime(c)
	if err != nil {
		b.Fatal(err)
	}
	x := c.Origin_ns
	for b.Loop() {
		x += 100
		sink += uint64(fast.Virtual(x))
	}
}
