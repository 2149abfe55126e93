package messages

import (
	"path/filepath"
	"testing"

	"github.com/cloudprofiler/cloudprofiler/internal/callgen"
	"github.com/cloudprofiler/cloudprofiler/internal/seed"
	"github.com/cloudprofiler/cloudprofiler/runs"
	"github.com/cloudprofiler/cloudprofiler/tscratio"
)

// Between the calls of any two nodes, Times gives intervals that overlap those of Closure.Duration,
// and that are not much wider.
func TestTimesAreThoseOfTheClosure(t *testing.T) {
	const reference = "A"
	o := callgen.Options{Requests: 30, PerSecond: 20, Seed: 1}
	set := callgen.Make(callgen.Apps["hotel"], o)
	parent := t.TempDir()
	if err := callgen.Capture(seed.Random(t), parent, "run", set, 3); err != nil {
		t.Fatal(err)
	}
	dir, err := runs.Open(filepath.Join(parent, "run"))
	if err != nil {
		t.Fatal(err)
	}
	defer dir.Close()
	times, err := NewTimes(dir, Options{Reference: reference})
	if err != nil {
		t.Fatal(err)
	}
	logs, err := Logs(dir)
	if err != nil {
		t.Fatal(err)
	}
	var ends []Call
	Find(logs, func(m Match) { ends = append(ends, m.Send, m.Receive) })
	duration := func(first *Call, x uint64, second *Call, y uint64) tscratio.Duration {
		d, err := times.related.Closure.Duration(reference,
			tscratio.Event{Node: first.Log.Node, Reading: x},
			tscratio.Event{Node: second.Log.Node, Reading: y})
		if err != nil {
			t.Fatal(err)
		}
		return d
	}
	compared := map[[2]string]int{}
	for i := range ends {
		for j := range 40 {
			first, second := &ends[i], &ends[(i+j*j)%len(ends)]
			least := duration(first, first.Hi_cycles, second, second.Lo_cycles)
			most := duration(first, first.Lo_cycles, second, second.Hi_cycles)
			got, err := times.Between(first, second)
			want := tscratio.Elapsed{Lo: least.Lo, Hi: most.Hi}
			if err != nil || !got.Intersect(want).Valid() || got.Width() > 2*want.Width()+16 ||
				got.Verdict != max(least.Verdict, most.Verdict) {
				t.Fatalf("from %s to %s: %v, %v, want %v", first.Log.Node, second.Log.Node, got,
					err, want)
			}
			compared[[2]string{first.Log.Node, second.Log.Node}]++
		}
	}
	if len(compared) != 9 {
		t.Errorf("of 9 pairs of nodes, %d were compared", len(compared))
	}
}
