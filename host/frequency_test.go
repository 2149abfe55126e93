package host

import (
	"errors"
	"math/big"
	"testing"
	"time"

	"github.com/cloudprofiler/cloudprofiler/internal/seed"
)

func TestFrequencyIsRoundedOutward(t *testing.T) {
	tests := map[string]struct {
		first, last Bracket
		widen       uint64
		step        int64
		lo, hi      uint64
		err         error
	}{
		"exact": {first: Bracket{100, 0, 100}, last: Bracket{2700, 1000, 2700},
			lo: 2_600_000_000_000, hi: 2_600_000_000_000},
		"bracket and step": {first: Bracket{100, 0, 200}, last: Bracket{3100, 1000, 3300}, step: 1,
			lo: 2_897_102_897_102, hi: 3_203_203_203_204},
		"quantum": {first: Bracket{0, 0, 0}, last: Bracket{1000, 1000, 1000}, widen: 26,
			lo: 974_000_000_000, hi: 1_026_000_000_000},
		"less than zero": {first: Bracket{0, 0, 0}, last: Bracket{10, 1000, 10}, widen: 26, lo: 0,
			hi: 36_000_000_000},
		"no time passed": {first: Bracket{0, 5, 0}, last: Bracket{10, 5, 10},
			err: ErrSpanTooShort},
		"within a step": {first: Bracket{0, 0, 0}, last: Bracket{1000, 10, 1000}, step: 10,
			err: ErrSpanTooShort},
		"overlapping": {first: Bracket{0, 0, 100}, last: Bracket{90, 1000, 1000},
			err: ErrSpanTooShort},
		"too fast": {first: Bracket{0, 0, 0}, last: Bracket{1 << 62, 2, 1 << 62},
			err: ErrSpanTooShort},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			f, err := FrequencyBetween(test.first, test.last, test.widen, test.step)
			if !errors.Is(err, test.err) || (err == nil) != (test.err == nil) {
				t.Fatalf("error = %v, want %v", err, test.err)
			}
			if f.Lo_millihz != test.lo || f.Hi_millihz != test.hi {
				t.Errorf("frequency = [%d, %d], want [%d, %d]",
					f.Lo_millihz, f.Hi_millihz, test.lo, test.hi)
			}
		})
	}
}

func TestTrueFrequencyIsInside(t *testing.T) {
	r := seed.Random(t)
	for range 5000 {
		hz := 1_000_000 + r.Int64N(5_000_000_000)
		quantum := 1 + r.Int64N(100)
		step := 1 + r.Int64N(1000)
		counter := func(t_ns int64) uint64 { // rounded down to a full cycle, then to a full step
			v := new(big.Int).Mul(big.NewInt(hz), big.NewInt(t_ns))
			v.Div(v, big.NewInt(1_000_000_000))
			return v.Uint64() / uint64(quantum) * uint64(quantum)
		}
		bracket := func(t_ns int64) Bracket {
			before, after := r.Int64N(2000), r.Int64N(2000)
			return Bracket{counter(t_ns - before), t_ns / step * step, counter(t_ns + after)}
		}
		start := 10_000 + r.Int64N(1<<40)
		first, last := bracket(start), bracket(start+10_000+r.Int64N(1<<30))
		f, err := FrequencyBetween(first, last, uint64(quantum), step)
		if err != nil {
			continue // a coarse counter moved too few steps
		}
		if !f.Contains(uint64(hz) * 1000) {
			t.Fatalf("true frequency %d Hz outside [%d, %d] mHz; quantum %d, step %d, %+v, %+v",
				hz, f.Lo_millihz, f.Hi_millihz, quantum, step, first, last)
		}
	}
}

func TestFrequencyInWords(t *testing.T) {
	f := Frequency{2_596_117_000_000, 2_596_127_000_000, time.Second, "CLOCK_MONOTONIC_RAW"}
	if got, want := f.String(), "2596.122000 MHz ± 1.926 ppm of CLOCK_MONOTONIC_RAW"; got != want {
		t.Errorf("String() = %q, want %q", got, want)
	}
	if (Frequency{}).Uncertainty_ppb() < 1e9 {
		t.Error("a frequency of nothing is certain")
	}
}

func TestFrequencyOfASyntheticNode(t *testing.T) {
	n := newNode()
	first, err := n.clocks().Bracket()
	if err != nil {
		t.Fatal(err)
	}
	n.wait(100 * time.Millisecond)
	last, err := n.clocks().Bracket()
	if err != nil {
		t.Fatal(err)
	}
	f, err := FrequencyBetween(first, last, n.quantum, 1)
	if err != nil || !f.Contains(2_600_000_000_000) || f.Uncertainty_ppb() > 5000 {
		t.Fatalf("frequency = %v, %v; want 2600 MHz within 5 ppm", f, err)
	}
}
