package analysis

import (
	"testing"

	"github.com/cloudprofiler/cloudprofiler/internal/seed"
	"github.com/cloudprofiler/cloudprofiler/internal/simrun"
	"github.com/cloudprofiler/cloudprofiler/logstore"
)

// If a counter has very many samples, only some are kept. Their counts still add up.
func TestManySamples(t *testing.T) {
	rng := seed.Random(t)
	for _, n := range []int{
		1, 2, 100, maxSamples, maxSamples + 1, 3*maxSamples + 7, 40 * maxSamples,
	} {
		var s samples
		var at, count uint64
		for left := n; left > 0; {
			rows := make([]logstore.Sample, min(left, 1+rng.IntN(logstore.MaxRows)))
			for i := range rows {
				at, count = at+1+rng.Uint64N(1000), count+rng.Uint64N(5)
				rows[i] = logstore.Sample{Counter: at, Count: count}
			}
			s.add(rows)
			left -= len(rows)
		}
		all := s.keptSamples()
		if len(all) > maxSamples+1 || len(all) < min(n, maxSamples/2) ||
			all[len(all)-1].Count != count || s.backwards != 0 {
			t.Errorf("of %d samples %d are kept, to %d of %d", n, len(all), all[len(all)-1].Count,
				count)
		}
		for i := 1; i < len(all); i++ {
			if all[i].Counter <= all[i-1].Counter || all[i].Count < all[i-1].Count {
				t.Fatalf("of %d samples number %d is %+v behind %+v", n, i, all[i], all[i-1])
			}
		}
	}
}

// A counter that goes back is reported. Its samples do not look as if it had counted to 2^64.
func TestSamplesThatGoBack(t *testing.T) {
	rng := seed.Random(t)
	nodes := simrun.Nodes(rng, 2)
	parent := t.TempDir()
	d, err := simrun.Begin(rng, parent, "back", nodes, simrun.Hz, 12*simrun.Hz)
	if err != nil {
		t.Fatal(err)
	}
	l, err := simrun.OpenLog(d, &nodes[0], "n/recv", "counter", 1)
	if err != nil {
		t.Fatal(err)
	}
	var rows []logstore.Sample
	for i, count := range []uint64{10, 20, 5, 30, 1 << 63, 40} {
		rows = append(rows, logstore.Sample{
			Counter: nodes[0].Reading(uint64(2+i) * simrun.Hz), Count: count,
		})
	}
	rows = append(rows, logstore.Sample{Counter: 1, Count: 1<<63 + 1})
	if err := l.Append(logstore.Block{Samples: rows}); err != nil {
		t.Fatal(err)
	}
	if err := l.Seal(); err != nil {
		t.Fatal(err)
	}
	if _, err := d.Complete(); err != nil {
		t.Fatal(err)
	}
	a := analyze(t, openRun(t, parent, "back"), Options{Reference: "A"})
	if len(a.Counters) != 1 || !mentions(a, "3 samples of n/recv on node A count less") ||
		!a.Partial {
		t.Fatalf("counters %+v, findings %v", a.Counters, a.Findings)
	}
	sum := uint64(10)
	for _, p := range a.Counters[0].Periods {
		if sum += p.Count; p.Length.Lo_cycles < 0 {
			t.Errorf("period %+v", p)
		}
	}
	if sum != 1<<63 || a.Counters[0].Total != sum {
		t.Errorf("%d in all periods, %d in all", sum, a.Counters[0].Total)
	}
}
