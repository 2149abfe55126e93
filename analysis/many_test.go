package analysis

import (
	"runtime"
	"slices"
	"testing"

	"github.com/cloudprofiler/cloudprofiler/internal/seed"
	"github.com/cloudprofiler/cloudprofiler/internal/simrun"
	"github.com/cloudprofiler/cloudprofiler/logstore"
)

// If a program logs one id for everything, the analysis needs at most a small multiple of the
// memory that the events take. It can tell the tuples with this id apart if each of them ends
// before the next one begins.
func TestOneIDForAll(t *testing.T) {
	const calls = 50_000
	channels := []simrun.Channel{{Name: "a/start"}, {Node: 1, Name: "b/end"}}
	for i := range uint64(calls) {
		at := simrun.Hz + i*100_000
		channels[0].Records = append(channels[0].Records, simrun.Record{Time: at, ID: 7})
		channels[1].Records = append(channels[1].Records, simrun.Record{Time: at + 50_000, ID: 7})
	}
	dir := write(t, channels...)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	a := analyze(t, dir, Options{Workers: 1, Reference: "A"})
	runtime.ReadMemStats(&after)
	if len(a.Spans) != 1 || a.Spans[0].All.Count != calls || a.Spans[0].All.After > 0 ||
		a.Spans[0].All.Max.Lo_cycles > 60_000 {
		t.Errorf("%d spans, findings %v", len(a.Spans), a.Findings)
	}
	if took := after.TotalAlloc - before.TotalAlloc; took > 1200*2*calls {
		t.Errorf("%d bytes for each of %d events", took/(2*calls), 2*calls)
	}
}

// Somebody may deliberately choose many ids that have the same hash. Each id must still get its own
// events and no others, without a comparison of every pair of ids.
func TestIDsOfOneHash(t *testing.T) {
	const n = 60_000
	w := &gatherer{}
	for i := range n {
		w.events = append(w.events, logstore.Event{Counter: uint64(i), ID: uint64(n-i) / 2})
		w.sources = append(w.sources, 0)
		w.next = append(w.next, uint32(i))
	}
	var ids, readings []uint64
	w.splitByID(n, func(id uint64, events []passage) {
		ids = append(ids, id)
		for _, e := range events {
			if uint64(n-int(e.reading))/2 != id {
				t.Fatalf("id %d has the event %d", id, e.reading)
			}
			readings = append(readings, e.reading)
		}
	})
	slices.Sort(readings)
	if len(slices.Compact(readings)) != n || len(ids) != n/2+1 || !slices.IsSorted(ids) {
		t.Errorf("%d ids, %d events", len(ids), len(readings))
	}
}

// lastNotAfter finds the same beginning as a linear scan: the last one that may be before the
// event.
func TestLastNotAfter(t *testing.T) {
	rng := seed.Random(t)
	for range 2000 {
		all := make([]beginning, 1+rng.IntN(12))
		for i := range all {
			all[i].lo = uint64(i*10) + rng.Uint64N(1+rng.Uint64N(60))
		}
		hi, want := rng.Uint64N(200), 0
		for i, b := range all {
			if b.lo <= hi {
				want = i
			}
		}
		if lowerEnds(all); lastNotAfter(all, hi) != want {
			t.Fatalf("of %v the last not above %d is %d, want %d", all, hi, lastNotAfter(all, hi),
				want)
		}
	}
}
