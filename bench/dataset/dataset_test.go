package dataset

import (
	"math"
	"sort"
	"testing"
)

const records = 1 << 19

func TestSameSeedSameRecords(t *testing.T) {
	for _, name := range Names() {
		var c [2][1000]uint64
		var d [2][1000]uint64
		for k := range c {
			s, err := New(name, 7)
			if err != nil {
				t.Fatal(err)
			}
			s.Fill(c[k][:500], d[k][:500])
			s.Fill(c[k][500:], d[k][500:])
		}
		if c[0] != c[1] || d[0] != d[1] {
			t.Errorf("%s: two streams of one seed differ", name)
		}
		other, _ := New(name, 8)
		other.Fill(c[1][:], d[1][:])
		if c[0] == c[1] {
			t.Errorf("%s: seeds 7 and 8 give the same counters", name)
		}
	}
}

func TestCountersKeepTheQuantum(t *testing.T) {
	for _, name := range Names() {
		s, _ := New(name, 1)
		c, d := make([]uint64, 10000), make([]uint64, 10000)
		s.Fill(c, d)
		for i := range c {
			if c[i]%s.Quantum != 0 || i > 0 && c[i] < c[i-1] {
				t.Fatalf("%s: counter %d is %d after %d", name, i, c[i], c[max(i, 1)-1])
			}
		}
	}
}

// The entropy that follows from how often each gap occurs (the plug-in entropy) must be close to
// the entropy of the distribution. This checks the formulas, because the plug-in entropy does not
// use them. In these sets, gaps have few different values. With more values, the plug-in entropy
// would need more records than a test should draw. In the set bursts, no idle gap occurs twice in
// this test. So the plug-in entropy misses some bits of each idle gap: 0.03 bits a record.
func TestEntropyAgreesWithFrequencies(t *testing.T) {
	for name, tolerance := range map[string]float64{
		"bursts/seq/q26":     0.06,
		"bursts/seq/q1":      0.02,
		"poisson1us/seq/q26": 0.01,
	} {
		s, _ := New(name, 1)
		c, d := make([]uint64, records), make([]uint64, records)
		s.Fill(c, d)
		var p PlugIn
		p.Observe(c[:records/2])
		p.Observe(c[records/2:])
		want, _ := s.EntropyBits()
		if got := p.Bits(); math.Abs(got-want) > tolerance*want {
			t.Errorf("%s: frequencies give %.4f bits a gap, the distribution %.4f", name, got, want)
		}
	}
}

func TestMeanGap(t *testing.T) {
	for gaps, want := range map[string]float64{
		"loop":        49.5 + (300.0+2000)/2000,
		"poisson1us":  2600,
		"poisson20us": 52000,
		"bursts":      255.0/256*49.5 + (260_000.0+2_600_000)/256,
	} {
		s, _ := New(gaps+"/seq/q1", 3)
		c, d := make([]uint64, records), make([]uint64, records)
		s.Fill(c, d)
		got := float64(c[records-1]-c[0]) / (records - 1)
		if math.Abs(got/want-1) > 0.06 {
			t.Errorf("%s: mean gap %.1f cycles, want %.1f", gaps, got, want)
		}
	}
}

func TestShuffledIDsArePermutationsOfTheirGroup(t *testing.T) {
	s, _ := New("loop/shuffled64/q1", 5)
	c, d := make([]uint64, 6400), make([]uint64, 6400)
	s.Fill(c, d)
	moved, last := 0, uint64(0)
	for g := 0; g < len(d); g += shuffleGroup {
		group := append([]uint64(nil), d[g:g+shuffleGroup]...)
		if !sort.SliceIsSorted(group, func(i, j int) bool { return group[i] < group[j] }) {
			moved++
		}
		sort.Slice(group, func(i, j int) bool { return group[i] < group[j] })
		for i, id := range group {
			if id != group[0]+uint64(i) || g > 0 && group[0] != last+1 {
				t.Fatalf("group at %d holds id %d at rank %d of base %d", g, id, i, group[0])
			}
		}
		last = group[shuffleGroup-1]
	}
	if moved != 100 {
		t.Errorf("%d of 100 groups are out of order", moved)
	}
	if _, h := s.EntropyBits(); math.Abs(h-4.625) > 0.001 {
		t.Errorf("log2(64!)/64 = %v", h)
	}
}

func TestUnknownNameIsRefused(t *testing.T) {
	for _, name := range []string{"", "loop", "loop/seq", "loop/seq/q2", "loop/seq/q1/x",
		"poisson/seq/q1", "loop/rnd/q1"} {
		if _, err := New(name, 1); err == nil {
			t.Errorf("data set %q is accepted", name)
		}
	}
}
