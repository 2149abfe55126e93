package generator

import (
	"errors"
	"io"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cloudprofiler/cloudprofiler/internal/seed"
)

func all(t *testing.T, s Schedule, threads int) []float64 {
	t.Helper()
	var due []float64
	for i := range threads {
		last := 0.0
		times := s.Thread(i, threads)
		for {
			at, ok := times()
			if !ok {
				break
			}
			if at < last || at > float64(s.Duration()) {
				t.Fatalf("%s: thread %d: %f after %f, of %s", s, i, at, last, s.Duration())
			}
			last = at
			due = append(due, at)
		}
		if at, ok := times(); ok {
			t.Fatalf("%s: %f after the end", s, at)
		}
	}
	slices.Sort(due)
	return due
}

func TestSchedulesSayWhenTuplesAreDue(t *testing.T) {
	const ms = 1e6
	tests := []struct {
		text string
		want []float64 // the first due times, in ns
		n    int
	}{
		{"constant:1000x5ms", []float64{0, 1 * ms, 2 * ms, 3 * ms, 4 * ms}, 5},
		{"constant:2.5x1s", []float64{0, 400 * ms, 800 * ms}, 3},
		{"constant:3000000x1ms", []float64{0, 1e9 / 3e6, 2e9 / 3e6, 1000}, 3000},
		{"step:1000x2ms,2000x1ms", []float64{0, 1 * ms, 2 * ms, 2.5 * ms}, 4},
		// If a part ends between two tuples, a fraction of the gap between them has passed. The
		// next part continues with the rest of the gap.
		{"step:1000x1500us,2000x1ms", []float64{0, 1 * ms, 1.75 * ms, 2.25 * ms}, 4},
		{"step:0x3ms,1000x2ms", []float64{3 * ms, 4 * ms}, 2},
		// Tuple k of a ramp from 0 is due at √(2k/slope).
		{"ramp:0-1000x1s", []float64{0, 1e9 * math.Sqrt(2.0/1000), 1e9 * math.Sqrt(4.0/1000)}, 500},
		{"ramp:1000-0x1s", []float64{0, 1e9 * (1 - math.Sqrt(1-2.0/1000))}, 500},
		{"burst:3/10msx15ms", []float64{0, 0, 0, 10 * ms, 10 * ms, 10 * ms}, 6},
	}
	for _, test := range tests {
		s := mustSchedule(t, test.text)
		for _, threads := range []int{1, 2, 3, 7} {
			due := all(t, s, threads)
			if len(due) != test.n || math.Abs(s.Tuples()-float64(test.n)) > 0.5 {
				t.Errorf("%s: %d tuples, says %g, want %d", s, len(due), s.Tuples(), test.n)
				continue
			}
			for i, want := range test.want {
				if math.Abs(due[i]-want) > 0.01 {
					t.Errorf("%s: tuple %d of %d threads is due at %f, want %f",
						s, i, threads, due[i], want)
				}
			}
		}
		if s.String() != test.text && !strings.HasPrefix(test.text, "step:1000x1500us") {
			t.Errorf("%q prints as %q", test.text, s)
		}
	}
}

// Errors do not add up: each tuple of an hour is due at its exact time, whatever the rate of the
// schedule is.
func TestConstantDoesNotDrift(t *testing.T) {
	r := seed.Random(t)
	for range 20 {
		rate := math.Exp(r.Float64()*10) + 0.1
		s, err := Constant(rate, time.Hour)
		if err != nil {
			t.Fatal(err)
		}
		k := math.Floor(r.Float64() * rate * 3600)
		times := s.Thread(int(k), 1)
		if due, _ := times(); math.Abs(due-k/rate*1e9) > 0.01 {
			t.Errorf("rate %g: tuple %.0f is due at %f, want %f", rate, k, due, k/rate*1e9)
		}
	}
}

func TestPoissonIsPoisson(t *testing.T) {
	for _, threads := range []int{1, 4} {
		due := all(t, mustSchedule(t, "poisson:10000x10s@3"), threads)
		if math.Abs(float64(len(due))-100_000) > 5*math.Sqrt(100_000) {
			t.Errorf("%d tuples, want 100,000 and 5 sigma at most", len(due))
		}
		long := 0
		for i := 1; i < len(due); i++ {
			if due[i]-due[i-1] > 100_000 { // the mean gap: a share e⁻¹ of all gaps is longer
				long++
			}
		}
		if share := float64(long) / float64(len(due)); math.Abs(share-1/math.E) > 0.01 {
			t.Errorf("%d threads: %.3f of all gaps are longer than the mean, want %.3f",
				threads, share, 1/math.E)
		}
		again := all(t, mustSchedule(t, "poisson:10000x10s@3"), threads)
		if !slices.Equal(due, again) {
			t.Error("the same seed gave other times")
		}
	}
}

func TestReplay(t *testing.T) {
	open := func(text string) func(string) (io.ReadCloser, error) {
		return func(string) (io.ReadCloser, error) {
			return io.NopCloser(strings.NewReader(text)), nil
		}
	}
	s, err := ParseSchedule("replay:trace", open("# seconds\n10.5\n10.5\n\n10.75\n12\n"))
	if err != nil {
		t.Fatal(err)
	}
	due := all(t, s, 2)
	if !slices.Equal(due, []float64{0, 0, 0.25e9, 1.5e9}) || s.Duration() != 1500*time.Millisecond {
		t.Errorf("due %v, duration %s", due, s.Duration())
	}
	for _, bad := range []string{"", "x", "2\n1\n", "NaN\n", "0\n1e9\n", "inf\n"} {
		if s, err := ParseSchedule("replay:trace", open(bad)); !errors.Is(err, ErrSchedule) {
			t.Errorf("%q: %v, %v", bad, s, err)
		}
	}
}

func TestParseScheduleRefuses(t *testing.T) {
	for _, bad := range []string{
		"", "constant", "constant:", "constant:1",
		"constant:0x1s", "constant:-1x1s", "constant:NaNx1s", "constant:infx1s", "constant:1e11x1s",
		"constant:1x0s", "constant:1x-1s", "constant:1x25h",
		"step:", "step:1x1s,", "step:0x1s",
		"ramp:1x1s", "ramp:1-2",
		"burst:0/1sx1s", "burst:1/0sx1s", "burst:1/1s",
		"poisson:1x1s@", "poisson:0x1s", "poisson:1x1s@-1",
		"replay:file", "sine:1x1s",
	} {
		if s, err := ParseSchedule(bad, nil); !errors.Is(err, ErrSchedule) {
			t.Errorf("%q: %v, %v", bad, s, err)
		}
	}
}

func FuzzParseSchedule(f *testing.F) {
	for _, text := range []string{
		"constant:2.5x1s", "step:1x1s,2x2s", "ramp:0-9x1s", "burst:2/1sx3s", "poisson:5x1s@7",
	} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		s, err := ParseSchedule(text, nil)
		if err != nil {
			if !errors.Is(err, ErrSchedule) {
				t.Fatal(err)
			}
			return
		}
		// String returns a text that ParseSchedule reads as the same schedule.
		again, err := ParseSchedule(s.String(), nil)
		if err != nil {
			t.Fatalf("%q prints as %q: %v", text, s, err)
		}
		a, b := s.Thread(0, 1), again.Thread(0, 1)
		last := 0.0
		for range 1000 {
			x, okX := a()
			y, okY := b()
			if okX != okY || okX && x != y {
				t.Fatalf("%q and %q differ: %f, %f", text, s, x, y)
			}
			if !okX {
				return
			}
			if !(x >= last) || x > float64(s.Duration())+1 {
				t.Fatalf("%q: %f after %f", text, x, last)
			}
			last = x
		}
	})
}
