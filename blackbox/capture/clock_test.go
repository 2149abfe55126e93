package capture

import (
	"math"
	"runtime"
	"testing"
	"time"

	"github.com/cloudprofiler/cloudprofiler/asm"
	"github.com/cloudprofiler/cloudprofiler/internal/seed"
)

// A machine has a clock that runs at changing rates, and a counter.
type machine struct {
	ns, cycles float64 // the exact present
	rate       float64 // cycles per ns of the clock
	steering   steering
	past       [][2]float64 // ns, cycles
}

func (m *machine) pass(ns float64) {
	m.ns, m.cycles = m.ns+ns, m.cycles+ns*m.rate
	m.past = append(m.past, [2]float64{m.ns, m.cycles})
}

// Whatever the clock does, a stamp is converted to an interval that contains the truth.
func TestCountsContainTheTruth(t *testing.T) {
	random := seed.Random(t)
	const nominal = 2.6 // cycles per ns
	for what, disturb := range map[string]func(*machine){
		"steady": func(*machine) {},
		"rounded": func(m *machine) {
			m.pass(1e9 * random.Float64()) // long enough for the rounding to show
			m.rate = nominal * (1 + steadyWander*(2*random.Float64()-1))
			m.pass(1e9 * random.Float64())
		},
		"another frequency": func(m *machine) {
			ppm := 100 * (2*random.Float64() - 1)
			m.rate = nominal / (1 + ppm/1e6)
			m.steering.frequency = int64(ppm * (1 << 16))
		},
		"an offset": func(m *machine) {
			m.rate = nominal * (1 + 499e-6*(2*random.Float64()-1))
			m.steering.offset = 1000
		},
		"another tick": func(m *machine) {
			m.steering.tick = random.Int64N(19) - 9
			m.rate = nominal / (1 + float64(m.steering.tick)/100)
		},
	} {
		m := &machine{ns: 1e9 + random.Float64(), cycles: 1e12, rate: nominal}
		c := clocks{read: func() bracket {
			b := bracket{before_cycles: uint64(m.cycles), steering: m.steering}
			m.pass(50 * random.Float64())
			b.clock_ns = uint64(m.ns)
			m.pass(50 * random.Float64())
			b.after_cycles = uint64(math.Ceil(m.cycles))
			return b
		}}
		c.takeBracket()
		for range 300 {
			m.pass(1e6 * random.Float64())
			if random.IntN(3) == 0 {
				disturb(m)
			}
			m.pass(1e6 * random.Float64())
			c.takeBracket()
		}
		if _, _, ok := c.countsAt(c.brackets[0].clock_ns - 1); ok {
			t.Errorf("%s: a stamp before the first bracket is converted", what)
		}
		if _, _, ok := c.countsAt(c.brackets[len(c.brackets)-1].clock_ns); ok {
			t.Errorf("%s: a stamp after the last bracket is converted", what)
		}
		converted, narrow := 0, 0
		for _, p := range m.past {
			stamp := uint64(p[0] + fast_ns*(2*random.Float64()-1))
			lo, hi, ok := c.countsAt(stamp)
			if !ok {
				continue
			}
			converted++
			if float64(lo) > p[1] || float64(hi) < p[1] {
				t.Fatalf("%s: at %.1f ns the counter was %.1f, which is not in [%d, %d]", what,
					p[0], p[1], lo, hi)
			}
			if float64(hi-lo) < 400 {
				narrow++
			}
		}
		if converted < 500 || what == "steady" && narrow < converted/2 {
			t.Errorf("%s: %d converted, %d narrow", what, converted, narrow)
		}
	}
}

// On this machine's clock and counter, a reading of the clock is converted to an interval that
// overlaps the interval between the counter's readings before and after it.
func TestReadBracket(t *testing.T) {
	c := clocks{read: readBracket}
	c.takeBracket()
	type reading struct{ before, ns, after uint64 }
	var readings []reading
	for range 100 {
		r := reading{before: asm.Counter()}
		r.ns = uint64(nanotime())
		r.after = asm.Counter()
		readings = append(readings, r)
		time.Sleep(100 * time.Microsecond) // only to spread the readings
	}
	c.takeBracket()
	if len(c.brackets) != 2 {
		t.Fatalf("%d brackets, want 2", len(c.brackets))
	}
	quantum_cycles := smallestTick(t)
	for _, r := range readings {
		if r.ns <= c.brackets[0].clock_ns || r.ns >= c.brackets[1].clock_ns {
			continue
		}
		lo, hi, ok := c.countsAt(r.ns)
		if !ok || lo > r.after+quantum_cycles || hi+quantum_cycles < r.before {
			t.Errorf("%+v: converted to [%d, %d], %t", r, lo, hi, ok)
		}
	}
}

// smallestTick returns the smallest step of the counter if the counter moves in steps, as on arm64.
// Such a counter shows the same value from one step to the next. On other machines, smallestTick
// returns 0.
func smallestTick(t *testing.T) uint64 {
	t.Helper()
	if runtime.GOARCH == "amd64" {
		return 0
	}
	least := uint64(math.MaxUint64)
	for last, steps := asm.Counter(), 0; steps < 1000; {
		if now := asm.Counter(); now != last {
			least, last, steps = min(least, now-last), now, steps+1
		}
	}
	return least
}

// Old brackets are dropped, so that a capture may run for ever.
func TestBracketsAreLimited(t *testing.T) {
	now := uint64(0)
	c := clocks{read: func() bracket {
		now += 1000
		return bracket{now, now, now + 1, steering{}}
	}}
	for range 5 * keptBrackets {
		c.takeBracket()
		if len(c.brackets) > 2*keptBrackets {
			t.Fatalf("%d brackets", len(c.brackets))
		}
	}
	if lo, hi, ok := c.countsAt(now - keptBrackets*1000); !ok || lo > now-keptBrackets*1000 ||
		hi < now-keptBrackets*1000 {
		t.Errorf("a stamp %d brackets ago: [%d, %d] %t", keptBrackets, lo, hi, ok)
	}
}
