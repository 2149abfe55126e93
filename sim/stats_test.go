package sim

import (
	"math"
	"slices"
	"testing"

	"github.com/cloudprofiler/cloudprofiler/internal/seed"
)

func TestStats(t *testing.T) {
	r := seed.Random(t)
	var whole, parts Stats
	var sum float64
	all := make([]float64, 1000)
	for i := range all {
		all[i] = float64(r.IntN(100))
		sum += all[i]
		whole.Add(all[i])
	}
	least, most := uint64(0), uint64(0)
	for _, v := range all {
		if v == slices.Min(all) {
			least++
		}
		if v == slices.Max(all) {
			most++
		}
	}
	for from := 0; from < len(all); {
		var part Stats
		to := min(from+r.IntN(100), len(all))
		for _, v := range all[from:to] {
			part.Add(v)
		}
		parts.Merge(ReadStats(part.Append(nil)))
		from = to
	}
	mean := sum / float64(len(all))
	var squares float64
	for _, v := range all {
		squares += (v - mean) * (v - mean)
	}
	for name, s := range map[string]Stats{"whole": whole, "parts": parts} {
		if s.N != 1000 || s.Min != slices.Min(all) || s.Max != slices.Max(all) ||
			s.MinCount != least || s.MaxCount != most {
			t.Errorf("%s: %+v", name, s)
		}
		if math.Abs(s.Mean()-mean) > 1e-9 || math.Abs(s.Variance()-squares/1000) > 1e-6 ||
			math.Abs(s.Sample()-squares/999) > 1e-6 {
			t.Errorf("%s: mean %v, variance %v, want %v, %v", name, s.Mean(), s.Variance(), mean,
				squares/1000)
		}
	}
}

// TestJava compares Java with what Java's Double.toString returns.
func TestJava(t *testing.T) {
	for v, want := range map[float64]string{0: "0.0", 1: "1.0", 50.5: "50.5", 1e7: "1.0E7",
		9999999: "9999999.0", 1e-3: "0.001", 9.99e-4: "9.99E-4",
		1.9554527178661528e-11: "1.9554527178661528E-11",
		-12345678.5:            "-1.23456785E7", math.Inf(-1): "-Infinity"} {
		if got := Java(v); got != want {
			t.Errorf("%v is written %q, want %q", v, got, want)
		}
	}
	if got := Java(math.NaN()); got != "NaN" {
		t.Errorf("NaN is written %q", got)
	}
}
