package analysis

import (
	"slices"
	"testing"

	"github.com/cloudprofiler/cloudprofiler/internal/seed"
	"github.com/cloudprofiler/cloudprofiler/logstore"
)

// What is put into a store comes out again, each row with its source and in the partition of its
// id, from memory or from the file. After the rows are taken out, the budget has their memory
// again.
func TestStore(t *testing.T) {
	rng := seed.Random(t)
	type row struct {
		logstore.Event
		source uint16
	}
	for _, memory := range []int64{0, 1 << 12, 1 << 16, 1 << 30} {
		s := newScratch(t.TempDir(), memory, 1<<30)
		st := newStore[logstore.Event](s, 3, 64)
		want := make([][]row, st.partitions())
		appenders := []*appender[logstore.Event]{st.appender(), st.appender()}
		for range 1000 {
			r := row{
				logstore.Event{Counter: rng.Uint64() >> 1, ID: rng.Uint64N(100 << pageBits)},
				uint16(rng.IntN(3)),
			}
			a, p := appenders[rng.IntN(2)], st.partition(r.ID)
			want[p] = append(want[p], r)
			if rng.IntN(2) == 0 {
				a.add(r.ID, int32(r.source), r.Event)
				continue
			}
			page := []logstore.Event{r.Event}
			for range rng.IntN(200) {
				r.Counter++
				page, want[p] = append(page, r.Event), append(want[p], r)
			}
			a.addAll(r.ID>>pageBits, int32(r.source), page)
		}
		for _, a := range appenders {
			if err := a.flush(); err != nil {
				t.Fatal(err)
			}
		}
		if left := s.memory.Load(); left < 0 || left == memory && memory > 1<<12 ||
			(s.used.Load() == 0) != (memory == 1<<30) {
			t.Errorf("of %d bytes %d are left, %d are in the file", memory, left, s.used.Load())
		}
		for p := range want {
			for k := range 3 {
				var got []row
				var buffer []logstore.Event
				if _, err := st.eachStretch(p, buffer, func(events []logstore.Event, source int32) {
					for _, e := range events {
						got = append(got, row{e, uint16(source)})
					}
				}); err != nil {
					t.Fatal(err)
				}
				take := st.load
				if k == 0 {
					take = st.peek
				}
				events, err := take(p, nil)
				if err != nil {
					t.Fatal(err)
				}
				order := func(a, b row) int {
					if a.Counter < b.Counter {
						return -1
					}
					return 1
				}
				slices.SortFunc(got, order)
				slices.SortFunc(want[p], order)
				if k == 2 { // this partition was taken out
					want[p] = nil
				}
				if !slices.Equal(got, want[p]) || len(events) != len(got) {
					t.Errorf("with %d bytes, partition %d, time %d: %d rows of %d with their "+
						"sources, %d without", memory, p, k, len(got), len(want[p]), len(events))
				}
			}
		}
		if left := s.memory.Load(); left != memory {
			t.Errorf("of %d bytes %d are left once everything was taken out", memory, left)
		}
		if err := s.close(); err != nil {
			t.Fatal(err)
		}
	}
}

// The partitions that workers gather at one time take at most a quarter of the memory. The only
// exception is a run that would need more than 2^14 partitions. With more partitions, the chunks
// that are being filled would use up the memory.
func TestPartitionsFitIntoMemory(t *testing.T) {
	rng := seed.Random(t)
	for range 10_000 {
		events, memory, workers := uint64(1)<<rng.IntN(40), int64(1)<<(20+rng.IntN(15)),
			1+rng.IntN(64)
		n := partitionBits(events, memory, workers)
		gathered := events >> n * 32 * uint64(workers)
		if n < 6 || n > 14 || n < 14 && gathered > uint64(memory)/4 ||
			n > 6 && gathered*2 < uint64(memory)/8 {
			t.Fatalf(
				"%d events, %d bytes, %d workers: 2^%d partitions, of which %d bytes are gathered",
				events, memory, workers, n, gathered)
		}
	}
}
