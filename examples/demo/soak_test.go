package demo

import (
	"math"
	"testing"
	"time"

	"github.com/cloudprofiler/cloudprofiler/channel"
	"github.com/cloudprofiler/cloudprofiler/internal/seed"
)

func TestSoak(t *testing.T) {
	o := options(t)
	o.Scratch = t.TempDir()
	o.Tuples, o.PerSecond = 2000, 1000
	s, err := RunSoak(t.Context(), o, 250*time.Millisecond)
	if err != nil {
		t.Fatal(err)
	}
	checked, between, outside := s.Checked()
	if checked < 10*s.Tuples || between < checked/2 || outside != 0 {
		t.Errorf("%d durations checked, %d between nodes, %d outside", checked, between, outside)
	}
	if s.Lost != 0 || s.Tuples != 2000 || !s.Consistent() {
		t.Errorf("%d tuples, %d lost; consistent %v", s.Tuples, s.Lost, s.Consistent())
	}
	if len(s.Periods) != 8 || len(s.Processes) != 9 || len(s.Samples) < 7 {
		t.Fatalf("%d periods, %d samples of %q", len(s.Periods), len(s.Samples), s.Processes)
	}
	for i, p := range s.Periods {
		if p.Durations < checked/8/2 || p.Outside != 0 ||
			p.HalfWidth_cycles <= 0 || p.widths != nil {
			t.Errorf("period %d: %+v", i, p)
		}
	}
	for _, sample := range s.Samples {
		for i, bytes := range sample.Private_bytes {
			if bytes < 1<<20 {
				t.Errorf("%s has %d bytes", s.Processes[i], bytes)
			}
		}
	}
	if last := s.Samples[len(s.Samples)-1]; last.Disk_bytes < 1000 {
		t.Errorf("%d bytes on disk", last.Disk_bytes)
	}
}

// Each id is in one period, and no id is in an earlier period than the previous id. The ranges of
// some periods contain exactly the ids of these periods.
func TestIDPeriods(t *testing.T) {
	r := seed.Random(t)
	for range 200 {
		p := idPeriods{map[uint64]*idRange{}, 1 + r.Uint64N(9)}
		var ids []uint64
		for node := range 1 + r.IntN(3) {
			first, n := r.Uint64N(channel.MaxCount-1000), 1+r.IntN(300)
			for i := range n {
				id, err := channel.NewID(node, 3, first+uint64(i))
				if err != nil {
					t.Fatal(err)
				}
				p.add(id)
				ids = append(ids, id)
			}
		}
		from := r.IntN(int(p.periods))
		to := from + 1 + r.IntN(int(p.periods)-from)
		last := map[uint64]int{}
		for _, id := range ids {
			inside := 0
			for _, some := range p.rangesBetween(from, to) {
				if some[0] <= id && id <= some[1] {
					inside++
				}
			}
			period, node := p.periodOf(id), id&^channel.MaxCount
			want := 0
			if from <= period && period < to {
				want = 1
			}
			if inside != want || period < last[node] || period >= int(p.periods) {
				t.Fatalf("%d is in period %d of %d, in %d ranges of periods %d to %d",
					id, period, p.periods, inside, from, to)
			}
			last[node] = period
		}
	}
}

func TestGrowth(t *testing.T) {
	s := &Soak{}
	s.Tuples = 2000
	for i := range 40 {
		bytes := int64(10e6)
		if i < 20 {
			bytes += int64(i) * 1e6 // a process grows when it starts
		} else {
			bytes += 20e6 + int64(i)*500
		}
		if i%7 == 0 {
			bytes += 50e6 // garbage
		}
		s.Samples = append(s.Samples, Sample{Private_bytes: []int64{5e6, bytes}})
	}
	if grown, ok := s.Growth_bytes(0); !ok || grown != 0 {
		t.Errorf("constant memory: growth %v, %v", grown, ok)
	}
	if grown, ok := s.Growth_bytes(1); !ok || math.Abs(grown-10_000) > 1 {
		t.Errorf("20 times 500 bytes: growth %v, %v", grown, ok)
	}
	if n := s.SecondHalfTuples(); n != 1000 {
		t.Errorf("%d tuples in the second half, want 1000", n)
	}
	s.Samples = s.Samples[:2*fewestSamples-2]
	if _, ok := s.Growth_bytes(0); ok {
		t.Error("too few samples are accepted")
	}
}

func TestSpread(t *testing.T) {
	s := &Soak{}
	for _, half := range []float64{100, 100, 150, 120} {
		s.Periods = append(s.Periods, Period{HalfWidth_cycles: half})
	}
	if worst, drift := s.Spread(); worst != 1.25 || drift != 1.5 {
		t.Errorf("worst %v, drift %v", worst, drift)
	}
	s.Periods = s.Periods[:1]
	if worst, _ := s.Spread(); !math.IsNaN(worst) {
		t.Errorf("one period: %v, want NaN", worst)
	}
}
