package sim

import (
	"encoding/binary"
	"math"
	"strconv"
	"strings"
)

// Stats are statistics of numbers. Merge combines the Stats of several parts. The same parts in the
// same order give the same result, bit by bit.
type Stats struct {
	N                  uint64
	Min, Max           float64
	MinCount, MaxCount uint64
	mean, squares      float64
}

// Add adds a number.
func (s *Stats) Add(v float64) {
	s.Merge(Stats{N: 1, Min: v, Max: v, MinCount: 1, MaxCount: 1, mean: v})
}

// Merge adds the numbers of another Stats.
func (s *Stats) Merge(o Stats) {
	if o.N == 0 {
		return
	}
	if s.N == 0 {
		*s = o
		return
	}
	switch {
	case o.Min < s.Min:
		s.Min, s.MinCount = o.Min, o.MinCount
	case o.Min == s.Min:
		s.MinCount += o.MinCount
	}
	switch {
	case o.Max > s.Max:
		s.Max, s.MaxCount = o.Max, o.MaxCount
	case o.Max == s.Max:
		s.MaxCount += o.MaxCount
	}
	n := float64(s.N + o.N)
	d := o.mean - s.mean
	s.mean += d * float64(o.N) / n
	s.squares += o.squares + d*d*float64(s.N)*float64(o.N)/n
	s.N += o.N
}

// Mean returns the mean of all numbers.
func (s *Stats) Mean() float64 { return s.mean }

// Variance returns the variance of the population. Sample returns the sample variance, which
// PeerSim prints.
func (s *Stats) Variance() float64 { return s.squares / max(float64(s.N), 1) }
func (s *Stats) Sample() float64   { return s.squares / max(float64(s.N)-1, 1) }

// String returns the numbers in PeerSim's order: smallest, largest, count, mean, variance, count of
// the smallest, count of the largest.
func (s *Stats) String() string {
	return strings.Join([]string{Java(s.Min), Java(s.Max), strconv.FormatUint(s.N, 10),
		Java(s.mean), Java(s.Sample()), strconv.FormatUint(s.MinCount, 10),
		strconv.FormatUint(s.MaxCount, 10)}, " ")
}

// Java formats a number as Java prints a double. So scripts that read PeerSim's output can read
// ours.
func Java(v float64) string {
	switch {
	case math.IsNaN(v):
		return "NaN"
	case math.IsInf(v, 1):
		return "Infinity"
	case math.IsInf(v, -1):
		return "-Infinity"
	}
	if a := math.Abs(v); a != 0 && (a < 1e-3 || a >= 1e7) {
		digits, exponent, _ := strings.Cut(strconv.FormatFloat(v, 'E', -1, 64), "E")
		if !strings.Contains(digits, ".") {
			digits += ".0"
		}
		e, _ := strconv.Atoi(exponent)
		return digits + "E" + strconv.Itoa(e)
	}
	text := strconv.FormatFloat(v, 'f', -1, 64)
	if !strings.Contains(text, ".") {
		text += ".0"
	}
	return text
}

// Append encodes the statistics, and ReadStats decodes them.
func (s *Stats) Append(to []byte) []byte {
	for _, v := range []uint64{s.N, math.Float64bits(s.Min), math.Float64bits(s.Max), s.MinCount,
		s.MaxCount, math.Float64bits(s.mean), math.Float64bits(s.squares)} {
		to = binary.LittleEndian.AppendUint64(to, v)
	}
	return to
}

// ReadStats decodes what Append wrote. If bytes are missing, the Stats have no numbers.
func ReadStats(b []byte) (s Stats) {
	if len(b) < 56 {
		return s
	}
	u := func(i int) uint64 { return binary.LittleEndian.Uint64(b[8*i:]) }
	f := func(i int) float64 { return math.Float64frombits(u(i)) }
	return Stats{N: u(0), Min: f(1), Max: f(2), MinCount: u(3), MaxCount: u(4), mean: f(5),
		squares: f(6)}
}
