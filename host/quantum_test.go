package host

import (
	"errors"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/cloudprofiler/cloudprofiler/internal/seed"
)

// steppedCounter is a counter that shows only full steps. At each reading it calls its function,
// the field cost, and advances by the result.
type steppedCounter struct {
	ideal float64
	step  float64
	phase uint64
	cost  func() float64
}

func (c *steppedCounter) read() uint64 {
	c.ideal += c.cost()
	return c.phase + uint64(math.Floor(c.ideal/c.step)*c.step)
}

func costs(r *rand.Rand, low, spread float64) func() float64 {
	return func() float64 { return low + r.Float64()*spread }
}

func TestQuantumOfKnownCounters(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 1))
	tests := map[string]struct {
		step      float64
		low, span float64 // range of the cost of a reading, in cycles
		want      uint64
		uneven    bool
	}{
		"every cycle":                      {1, 24, 100, 1, false},
		"every cycle, slow and wide":       {1, 200, 3000, 1, false},
		"26 on a guest":                    {26, 60, 400, 26, false},
		"100, the bus clock":               {100, 24, 400, 100, false},
		"arm64: one count is 41 ns":        {1, 0.3, 12, 1, false},
		"arm64: 40 counts a step, 1 GHz":   {40, 10, 900, 40, false},
		"larger than any reading's cost":   {5000, 24, 400, 5000, false},
		"scaled by a hypervisor, 25.96":    {25.96, 60, 400, 27, true},
		"scaled by a hypervisor, 100.4":    {100.4, 60, 900, 102, true},
		"scaled, several steps a reading":  {12.37, 60, 120, 14, true},
		"scaled and larger than a reading": {333.25, 24, 60, 335, true},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			c := &steppedCounter{ideal: 1e9, step: test.step, phase: 17,
				cost: costs(r, test.low, test.span)}
			q, err := MeasureQuantum(c.read, 20_000)
			if test.step == 5000 || test.step == 333.25 {
				// With such large steps, few differences are distinct. Spread the readings in time,
				// as on a busy machine, so that there are more.
				values := make([]uint64, 20_000)
				for i := range values {
					c.ideal += r.Float64() * 40 * test.step
					values[i] = c.read()
				}
				q, err = quantumOf(values)
			}
			if err != nil || q.Step_cycles != test.want || q.Uneven != test.uneven {
				t.Fatalf("quantum = %+v, %v; want %d, uneven %v", q, err, test.want, test.uneven)
			}
			if q.finding().Verdict != Fit {
				t.Errorf("finding = %+v, want fit", q.finding())
			}
		})
	}
}

func TestQuantumIsNeverSmallerThanTheStep(t *testing.T) {
	r := seed.Random(t)
	for range 300 {
		step := float64(1 + r.Uint64N(200))
		if r.IntN(2) == 0 {
			step += r.Float64()
		}
		values := make([]uint64, 2000)
		c := &steppedCounter{ideal: 1e12 * r.Float64(), step: step,
			cost: costs(r, 20+200*r.Float64(), 50+4000*r.Float64())}
		for i := range values {
			values[i] = c.read()
		}
		q, err := quantumOf(values)
		if err != nil {
			t.Fatalf("step %v: %v", step, err)
		}
		if float64(q.Step_cycles) < step && (step >= 8 || step == math.Trunc(step)) &&
			!looksEven(values, uint64(step)) {
			t.Fatalf("step %v: quantum = %+v is smaller", step, q)
		}
		if step == math.Trunc(step) && q.Step_cycles != uint64(step) && !q.AtMost {
			t.Fatalf("even step %v: quantum = %+v", step, q)
		}
	}
}

// looksEven reports whether every difference of readings is a multiple of the step.
func looksEven(values []uint64, step_cycles uint64) bool {
	for i := 1; i < len(values); i++ {
		if (values[i]-values[i-1])%step_cycles != 0 {
			return false
		}
	}
	return true
}

func TestOneUnevenStepIsEnough(t *testing.T) {
	r := seed.Random(t)
	for range 300 {
		// The step is so nearly even that only one or two of all readings show that it is not even.
		step := float64(9+r.Uint64N(200)) + 1e-6 + 1e-4*r.Float64()
		if r.IntN(2) == 0 {
			step = 2*math.Trunc(step) - step
		}
		values := make([]uint64, 4000)
		c := &steppedCounter{ideal: 1e12 * r.Float64(), step: step,
			cost: costs(r, 20+200*r.Float64(), 50+4000*r.Float64())}
		for i := range values {
			values[i] = c.read()
		}
		nearest := uint64(math.Round(step))
		q, err := quantumOf(values)
		if err != nil {
			t.Fatalf("step %v: %v", step, err)
		}
		if looksEven(values, nearest) {
			if q.Step_cycles < nearest || q.Dissenting > 0 {
				t.Fatalf("step %v that looks even: quantum = %+v", step, q)
			}
			continue
		}
		if float64(q.Step_cycles) < step+1 {
			t.Fatalf("step %v: quantum = %+v is smaller than a step and the fraction cut off",
				step, q)
		}
	}
}

func TestASmallStepIsUnevenByOneReading(t *testing.T) {
	// From 33 distinct differences alone, one could not tell steps of 8 from no steps. But seven of
	// the eight blocks contain only multiples of 8, which is enough.
	values := []uint64{1 << 50}
	for i := range uint64(4000) {
		d := 8 * (1 + i*i%37)
		if i == 1234 {
			d++
		}
		values = append(values, values[i]+d)
	}
	q, err := quantumOf(values)
	if err != nil || q.Step_cycles < 10 || q.Step_cycles > 11 || !q.Uneven || q.AtMost {
		t.Fatalf("quantum = %+v, %v; want 8, a bit more, and the fraction cut off", q, err)
	}
}

func TestAFineCounterIsNotTakenForAScaledOne(t *testing.T) {
	r := seed.Random(t)
	for range 300 {
		values := make([]uint64, 4000)
		c := &steppedCounter{step: 1, cost: costs(r, 20+200*r.Float64(), 30+3000*r.Float64())}
		for i := range values {
			values[i] = c.read()
		}
		q, err := quantumOf(values)
		if err != nil || q.Step_cycles != 1 || q.Uneven {
			t.Fatalf("quantum = %+v, %v; want 1", q, err)
		}
	}
}

func TestOneMigrationDoesNotMakeTheQuantumSmaller(t *testing.T) {
	for _, moved := range []int{10, 4321, 7990} { // in three of the blocks
		r := rand.New(rand.NewPCG(1, 1))
		c := &steppedCounter{ideal: 1e9, step: 26, cost: costs(r, 60, 400)}
		values := make([]uint64, 8000)
		for i := range values {
			if i == moved {
				c.phase += 1_000_003 // moved to a host whose counter has another phase
			}
			values[i] = c.read()
		}
		q, err := quantumOf(values)
		if err != nil || q.Step_cycles != 26 || q.Uneven || q.Dissenting != 1 {
			t.Fatalf("moved before reading %d: quantum = %+v, %v; "+
				"want 26 with one block dissenting", moved, q, err)
		}
		if f := q.finding(); f.Verdict != Warning || f.Remedy == "" {
			t.Errorf("finding = %+v, want a warning with a remedy", f)
		}
	}
}

func TestCountersWithoutQuantum(t *testing.T) {
	down := uint64(1 << 40)
	tests := map[string]struct {
		read func() uint64
		want error
	}{
		"still":     {func() uint64 { return 7 }, ErrCounterStill},
		"backwards": {func() uint64 { down -= 3; return down }, ErrCounterBackwards},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			if q, err := MeasureQuantum(test.read, 5000); !errors.Is(err, test.want) {
				t.Fatalf("quantum = %+v, %v; want %v", q, err, test.want)
			}
		})
	}
	if _, err := MeasureQuantum(func() uint64 { return 0 }, 1); err == nil {
		t.Error("one reading gave a quantum")
	}
}

func TestFewReadingsAreJudgedTogether(t *testing.T) {
	// The readings form eight blocks of six. No block alone has enough distinct differences, but
	// all blocks together have enough.
	var values []uint64
	v := uint64(0)
	for i := range uint64(48) {
		v += 26 * (3 + i*i%23)
		values = append(values, v)
	}
	if q, err := quantumOf(values); err != nil || q.Step_cycles != 26 {
		t.Fatalf("quantum = %+v, %v; want 26", q, err)
	}
}

func TestFewDifferentDifferencesGiveTheLargerStep(t *testing.T) {
	tests := map[string]struct {
		differences []uint64
		want        Quantum
	}{
		"always the same": {[]uint64{78},
			Quantum{Step_cycles: 78, Different: 1, AtMost: true}},
		"two multiples of 26": {[]uint64{78, 104},
			Quantum{Step_cycles: 26, Different: 2, AtMost: true}},
		"scaled, or just a few": {[]uint64{25, 26, 52},
			Quantum{Step_cycles: 27, Different: 3, AtMost: true, Uneven: true}},
		"a few that refute each step": {[]uint64{25, 31, 38, 45},
			Quantum{Step_cycles: 1, Different: 4, AtMost: true}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			values := []uint64{1 << 50}
			for i := range 1000 {
				values = append(values, values[i]+test.differences[i%len(test.differences)])
			}
			test.want.Readings, test.want.Moves = 1001, 1000
			if q, err := quantumOf(values); err != nil || q != test.want {
				t.Errorf("quantum = %+v, %v; want %+v", q, err, test.want)
			}
		})
	}
}

func TestGCD(t *testing.T) {
	r := seed.Random(t)
	slow := func(a, b uint64) uint64 {
		for b != 0 {
			a, b = b, a%b
		}
		return a
	}
	for range 10_000 {
		a, b := r.Uint64()>>r.UintN(64), r.Uint64()>>r.UintN(64)
		if got := gcd(a, b); got != slow(a, b) {
			t.Fatalf("gcd(%d, %d) = %d, want %d", a, b, got, slow(a, b))
		}
	}
}
