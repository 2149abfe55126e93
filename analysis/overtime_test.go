package analysis

import (
	"slices"
	"testing"

	"github.com/cloudprofiler/cloudprofiler/internal/seed"
	"github.com/cloudprofiler/cloudprofiler/internal/simrun"
)

// Each bin of time has the right numbers: the events of a point, on whatever node they are, and the
// durations that began in the bin.
func TestOverTime(t *testing.T) {
	const tuples = 20_000
	rng := seed.Random(t)
	nodes := simrun.Nodes(rng, 2)
	channels := []simrun.Channel{
		{Node: 0, Name: "a/recv"}, {Node: 1, Name: "b/recv"}, {Node: 1, Name: "c/recv"},
	}
	now := uint64(simrun.Hz)
	for id := range uint64(tuples) {
		now += rng.Uint64N(simrun.Hz / 2000)
		// The durations of tuples that go to b grow over time, and the durations of tuples that go
		// to c shrink.
		channels[0].Records = append(channels[0].Records, simrun.Record{Time: now, ID: id})
		channels[1].Records = append(channels[1].Records, simrun.Record{
			Time: now + 50_000 + 100*id + rng.Uint64N(50_000), ID: id,
		})
		channels[2].Records = append(channels[2].Records, simrun.Record{
			Time: now + 50_000_000 - 1000*id, ID: id,
		})
	}
	times := make([][]uint64, len(channels)) // by id
	for i := range channels {
		for _, r := range channels[i].Records {
			times[i] = append(times[i], r.Time)
		}
		simrun.InOrder(channels[i].Records)
	}
	// All instances of a point are counted together.
	all := channels[1].Records
	channels[1].Name, channels[1].Records = "b#0/recv", all[:0:0]
	channels = append(channels, simrun.Channel{Node: 0, Name: "b#1/recv"})
	for _, r := range all {
		of := 1 + 2*int(r.ID%2)
		channels[of].Records = append(channels[of].Records, r)
	}
	parent := t.TempDir()
	if err := simrun.Write(rng, parent, "r", nodes, channels); err != nil {
		t.Fatal(err)
	}
	dir := openRun(t, parent, "r")
	for _, workers := range []int{1, 3} {
		a := analyze(t, dir, Options{Reference: "A", Workers: workers})
		binOf := func(time uint64) int {
			return int((nodes[0].Reading(time) - uint64(a.Bins.From_cycles)) / a.Bins.Width_cycles)
		}
		// The edge of a bin is known to within the bound, so a few events may be in the next bin.
		near := func(got, want int) bool { return max(got-want, want-got) <= 2 }
		for i, p := range a.Points {
			var want [maxBins + 2]int
			for _, at := range times[i] {
				want[min(binOf(at), a.Bins.Count-1)]++
			}
			for b, n := range p.PerBin {
				if !near(int(n), want[b]) {
					t.Errorf("bin %d of %s has %d events, want %d", b, p.Name, n, want[b])
				}
			}
		}
		for _, l := range a.Spans {
			from, to := int(l.From[0]-'a'), int(l.To[0]-'a')
			var took [maxBins + 2][]int64
			for id := range uint64(tuples) {
				b := min(binOf(times[from][id]), a.Bins.Count-1)
				took[b] = append(took[b],
					int64(nodes[0].Reading(times[to][id])-nodes[0].Reading(times[from][id])))
			}
			seen := 0
			for _, o := range l.OverTime {
				want := took[o.Bin]
				slices.Sort(want)
				seen += int(o.Count)
				if !near(int(o.Count), len(want)) {
					t.Errorf("bin %d of %s to %s has %d durations, want %d", o.Bin, l.From, l.To,
						o.Count, len(want))
					continue
				}
				for _, p := range []struct {
					milli uint64
					Interval
				}{{50_000, o.P50}, {99_000, o.P99}} {
					r := int(rankOf(p.milli, uint64(len(want))))
					least, most := want[max(r-3, 0)], want[min(r+3, len(want)-1)]
					if slack := most/7 + 10_000; p.Lo_cycles > most || p.Hi_cycles < least ||
						p.Lo_cycles < least-slack || p.Hi_cycles > most+slack {
						t.Errorf("bin %d of %s to %s: of 100000 %d took %v, want from %d to %d",
							o.Bin, l.From, l.To, p.milli, p.Interval, least, most)
					}
				}
			}
			if seen != tuples {
				t.Errorf("%d of %d durations are in a bin", seen, tuples)
			}
		}
	}
}
