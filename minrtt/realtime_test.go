package minrtt

import (
	"math"
	"testing"

	"github.com/cloudprofiler/cloudprofiler/internal/seed"
)

// trueClock is the truth about a simulated clock: it maps the clock's exact reading, in ns, to
// counter cycles. Its slope stays within wander of its mean.
type trueClock struct {
	rate   float64 // in cycles per ns
	wander float64
	period float64 // period of the square wave that the slope follows, in ns
	phase  float64
}

// cyclesAt returns the counter's cycles when the clock shows x ns. The slope alternates between
// rate·(1 + wander) and rate·(1 − wander), which is the worst case.
func (c trueClock) cyclesAt(x float64) float64 {
	half := c.period / 2
	n := math.Floor((x + c.phase) / half)
	rest := x + c.phase - n*half
	bent := rest
	if int64(n)%2 != 0 {
		bent = half - rest
	}
	return c.rate * (x + c.wander*bent)
}

// cyclesOf converts a whole number of cycles to a reading of the counter. If the number is
// negative, the reading wraps round below 0.
func cyclesOf(x float64) uint64 { return uint64(int64(x)) }

// The interval contains the truth, whatever the clock does within its wander, wherever in the train
// the stamp is, and however wide the brackets are.
func TestRealtimeHoldsTheTruth(t *testing.T) {
	r := seed.Random(t)
	const start_ns, start_cycles = 1_800_000_000_000_000_000, 1 << 60
	for range 3000 {
		length := math.Pow(10, 3+r.Float64()*6) // in ns: 1 µs to 1 s
		c := trueClock{
			rate:   math.Pow(10, r.Float64()*2-1), // 0.1 to 10 cycles per ns
			wander: []float64{0, 1e-6, 1e-4, 0.3}[r.IntN(4)],
			period: length * (0.01 + r.Float64()*4),
		}
		c.phase = r.Float64() * c.period
		report := clockReport{status: clockRelated, wander_ppb: uint32(c.wander * 1e9),
			step_ns: []uint32{1, 7, 1000}[r.IntN(3)]}
		step := float64(report.step_ns)
		report.openingLength, report.closingLength = uint8(1+r.IntN(maxBrackets)),
			uint8(1+r.IntN(maxBrackets))
		width := []float64{0, 100, 10_000}[r.IntN(3)]
		take := func(x float64) bracket {
			return bracket{
				before_cycles: start_cycles + cyclesOf(math.Floor(c.cyclesAt(x-width*r.Float64()))),
				realtime_ns:   start_ns + int64(math.Floor(x/step)*step),
				after_cycles:  start_cycles + cyclesOf(math.Ceil(c.cyclesAt(x+width*r.Float64()))),
			}
		}
		for i := range report.openingLength {
			report.opening[i] = take(float64(i)*100 + r.Float64())
		}
		for i := range report.closingLength {
			report.closing[i] = take(length + float64(i)*100 + r.Float64())
		}
		clock := newRealtime(&report)
		if clock == nil {
			t.Fatalf("%+v is no relation", report)
		}
		for range 20 {
			x := r.Float64() * length
			got, ok := clock.countsAt(start_ns + int64(math.Floor(x/step)*step))
			if !ok && x < 1000+step {
				continue // the stamp is from before the first bracket
			}
			if !ok {
				t.Fatalf("%+v, %+v: brackets contradict each other", c, report)
			}
			truth := c.cyclesAt(x)
			lo, hi := float64(int64(got.Lo-start_cycles)), float64(int64(got.Hi-start_cycles))
			if truth < lo || truth > hi {
				t.Fatalf("%+v, %+v: at %f ns in [%f, %f], in truth at %f",
					c, report, x, lo, hi, truth)
			}
		}
	}
}

// The interval is as narrow as the brackets allow. With exact brackets and a steady clock, its
// width is 1 ns for the rounding of the stamp, plus the width of a bracket. With wide brackets, its
// width is that of a bracket, at every place in the train.
func TestRealtimeIsTight(t *testing.T) {
	for _, tc := range []struct {
		width_cycles uint64
		wander_ppb   uint32
		most_cycles  uint64
	}{
		{0, 0, 2*3 + 2},
		{0, 1000, 2*3 + 2 + 3 + 1}, // the wander moves the clock by 1 ns in half of 1 ms
		{180, 1000, 180 + 2*3 + 2 + 3 + 1},
	} {
		r := clockReport{status: clockRelated, openingLength: 1, closingLength: 1,
			wander_ppb: tc.wander_ppb, step_ns: 1}
		r.opening[0] = bracket{1 << 40, 1 << 60, 1<<40 + tc.width_cycles}
		r.closing[0] = bracket{1<<40 + 3_000_000, 1<<60 + 1_000_000,
			1<<40 + 3_000_000 + tc.width_cycles}
		clock := newRealtime(&r)
		for x := int64(0); x <= 1_000_000; x += 1000 {
			if iv, ok := clock.countsAt(1<<60 + x); !ok || iv.Width() > tc.most_cycles {
				t.Errorf("%+v: at %d ns %d cycles wide, %v, want at most %d",
					tc, x, iv.Width(), ok, tc.most_cycles)
			}
		}
	}
}

// If there are several brackets at one end, each of them narrows the interval. For example, much
// time may pass before the clock's reading in one bracket, and after the clock's reading in another
// bracket.
func TestRealtimeIntersectsBrackets(t *testing.T) {
	r := clockReport{status: clockRelated, openingLength: 2, closingLength: 2, step_ns: 1}
	r.opening = [maxBrackets]bracket{{990, 1000, 1001}, {2000 - 1, 2000, 2000 + 10}}
	r.closing = [maxBrackets]bracket{{100_990, 101_000, 101_001},
		{102_000 - 1, 102_000, 102_000 + 10}}
	iv, ok := newRealtime(&r).countsAt(51_000)
	if !ok || iv.Width() > 6 || !iv.Contains(51_000) {
		t.Errorf("%v, %v; want 51000, much narrower than any one bracket's 11 cycles", iv, ok)
	}
}

func TestRealtimeRefuses(t *testing.T) {
	good := func() clockReport {
		r := clockReport{status: clockRelated, openingLength: 1, closingLength: 1, wander_ppb: 1000,
			step_ns: 1}
		r.opening[0] = bracket{1 << 40, 1 << 60, 1<<40 + 100}
		r.closing[0] = bracket{1<<40 + 3_000_000, 1<<60 + 1_000_000, 1<<40 + 3_000_100}
		return r
	}
	at := int64(1<<60 + 1000)
	for _, tc := range []struct {
		name   string
		change func(r *clockReport, at *int64)
	}{
		{"clocks not related", func(r *clockReport, _ *int64) { r.status = clockAbsent }},
		{"clock set", func(r *clockReport, _ *int64) { r.status = clockStepped }},
		{"no opening bracket", func(r *clockReport, _ *int64) { r.openingLength = 0 }},
		{"no closing bracket", func(r *clockReport, _ *int64) { r.closingLength = 0 }},
		{"more wander than there is",
			func(r *clockReport, _ *int64) { r.wander_ppb = anything_ppb + 1 }},
		{"clock without a step", func(r *clockReport, _ *int64) { r.step_ns = 0 }},
		{"clock of milliseconds", func(r *clockReport, _ *int64) { r.step_ns = 1_000_001 }},
		{"train of a minute", func(r *clockReport, _ *int64) { r.closing[0].realtime_ns += 60e9 }},
		{"counter far ahead",
			func(r *clockReport, _ *int64) { r.closing[0].after_cycles = 1 << 63 }},
		{"counter far back", func(r *clockReport, _ *int64) { r.closing[0].before_cycles = 0 }},
		{"stamp of before the train", func(_ *clockReport, at *int64) { *at = 1<<60 - 1 }},
		{"stamp of after the train", func(_ *clockReport, at *int64) { *at = 1<<60 + 1_000_001 }},
		{"stamp of another day", func(_ *clockReport, at *int64) { *at += 86400e9 }},
		{"stamp of 1970", func(_ *clockReport, at *int64) { *at = 1 }},
		{"bracket that ends before it begins", func(r *clockReport, _ *int64) {
			r.closing[0].after_cycles = r.closing[0].before_cycles - 100
		}},
		{"counter backwards", func(r *clockReport, _ *int64) {
			r.closing[0].before_cycles, r.closing[0].after_cycles = 1<<40-1000, 1<<40-900
		}},
		{"counter of many revolutions", func(r *clockReport, _ *int64) {
			r.opening[0].before_cycles, r.opening[0].after_cycles = 0, 0
		}},
	} {
		r, a := good(), at
		tc.change(&r, &a)
		if c := newRealtime(&r); c != nil {
			if iv, ok := c.countsAt(a); ok {
				t.Errorf("%s: %v, want none", tc.name, iv)
			}
		}
	}
	r := good()
	if _, ok := newRealtime(&r).countsAt(at); !ok {
		t.Error("a good report is refused")
	}
}

// Whatever a peer reports, countsAt returns an interval or refuses.
func FuzzRealtime(f *testing.F) {
	p := everyField(kindClose | answerBit)
	b := appendClock(nil, &p.clock)
	f.Add(b, p.clock.opening[0].realtime_ns)
	f.Fuzz(func(t *testing.T, b []byte, at int64) {
		var r clockReport
		if len(b) != clockSize || parseClock(b, &r) != nil {
			return
		}
		if c := newRealtime(&r); c != nil {
			if iv, ok := c.countsAt(at); ok && (!iv.Valid() || iv.Width() > 2*maxReach) {
				t.Errorf("%v", iv)
			}
		}
	})
}
