package drain

import (
	"testing"
	"time"

	"github.com/cloudprofiler/cloudprofiler/channel"
	"github.com/cloudprofiler/cloudprofiler/handlers"
	"github.com/cloudprofiler/cloudprofiler/internal/seed"
	"github.com/cloudprofiler/cloudprofiler/logstore"
	"github.com/cloudprofiler/cloudprofiler/ring"
)

// reserveRecords makes a ring of a dead program. The program reserved at least n records, and wrote
// only those records for which the function written returns true. The results are the number of
// reserved records and the number of written records.
func reserveRecords(t *testing.T, r *rig, n uint64, written func(uint64) bool) (reserved,
	whole uint64) {
	t.Helper()
	p, err := ring.Create(r.rings, ring.Config{
		Name: name(t, "dead/x"), Settings: channel.Settings{Kind: channel.Identity},
		ManyWriters: true, Records: n,
	})
	if err != nil {
		t.Fatal(err)
	}
	for i := range p.Shards {
		s := &p.Shards[i]
		for seq := range s.Mask + 1 {
			if reserved++; written(seq) {
				*recordAt(s, seq) = ring.Record{Counter: s.Finished(seq, seq), ID: seq}
				whole++
			}
		}
		*s.Tail = s.Mask + 1
	}
	if err := p.Close(); err != nil {
		t.Fatal(err)
	}
	return reserved, whole
}

// However many records or holes a dead ring has, a worker takes a limited number of them each time
// that it looks at the ring. In the end nothing is missing.
func TestALookAtADeadRingIsBounded(t *testing.T) {
	for _, test := range []struct {
		what    string
		records uint64
		written func(seq uint64) bool
	}{
		{"nothing was written", 16 * holeRecords, func(uint64) bool { return false }},
		{"all was written", 4 * lookRecords, func(uint64) bool { return true }},
		{"every second one was written", 1 << 12, func(seq uint64) bool { return seq%2 == 1 }},
		{"three of four were written", 1 << 12, func(seq uint64) bool { return seq%4 != 2 }},
	} {
		t.Run(test.what, func(t *testing.T) {
			r := newRig(t, Options{Workers: 1})
			reserved, whole := reserveRecords(t, r, test.records, test.written)
			// most is the largest number of blocks that the worker may write each time that it
			// looks at the ring.
			const most = lookRecords/blockRecords + ring.MaxShards
			var before RingStats
			for looks := 0; ; looks++ {
				r.advanceClock(DefaultPoll)
				stats := r.d.Stats()
				if len(stats.Rings) == 0 {
					if stats.Finished != 1 || looks < 2 {
						t.Errorf("it is over after %d looks: %+v", looks, stats)
					}
					break
				}
				now := stats.Rings[0]
				blocks, rows, holes := now.Blocks-before.Blocks, now.Rows-before.Rows,
					now.Holes-before.Holes
				if blocks > most || rows > lookRecords+logstore.MaxRows ||
					holes > 4*lookRecords+holeRecords ||
					now.SetAside != nil || looks > 1000 {
					t.Fatalf("a look wrote %d blocks, %d rows, and passed %d holes: %+v", blocks,
						rows, holes, now)
				}
				before = now
			}
			k := readLogs(t, r.logs)["dead/x"]
			k.checkIntact(t)
			if got := uint64(k.countRows()); got != whole ||
				k.droppedRows(logstore.NeverWritten) != reserved-whole {
				t.Errorf("%d rows and %d never written, want %d of %d",
					got, k.droppedRows(logstore.NeverWritten), whole, reserved)
			}
		})
	}
}

// While logs move to another directory and one ring is full of records, the worker still looks at
// the other rings in time. Records that arrive in the full ring meanwhile go to the new directory.
func TestAFlushOfALargeRingStopsNoOther(t *testing.T) {
	seed.NotUnderRace(t, "nothing runs side by side")
	var r *rig
	var large, small *handlers.Channel
	var id uint64
	r = newRig(t, Options{Workers: 1, Fault: func(p FaultPoint) {
		if p == AfterHead && small != nil { // time passes and both programs log
			r.clock += earlyBy
			for range 2 {
				small.Log(id)
				large.Log(4<<20 + id)
				id++
			}
		}
	}})
	large = r.open("a/large", handlers.Options{Handler: "id", Policy: "drop", Buffer: "64MiB"})
	// The ring has 64 records.
	c := r.open("b/small", handlers.Options{Handler: "id", Policy: "drop", Buffer: "1KiB"})
	r.runFor(2 * checkPeriod)
	logMany(large, 0, 4<<20)
	first := r.logs
	small = c
	r.setLogs(t.TempDir())
	small = nil
	if id < 64 || c.Dropped() > 0 {
		t.Errorf("%d of %d events were dropped meanwhile", c.Dropped(), id)
	}
	large.Close()
	c.Close()
	r.runFor(2 * time.Second)
	k := readLogs(t, first)["a/large"]
	k.checkIntact(t)
	wantIDs(t, k.events[0], 4<<20)
	checkIDs(t, "what came meanwhile", readLogs(t, r.d.Logs())["a/large"].ids(), 4<<20, 4<<20+id)
}

// In one pass, a worker takes about as much from many full rings together as it takes from a single
// full ring. Before the worker looks at a ring again, it looks at all others.
func TestManyFullRingsShareAPass(t *testing.T) {
	const rings = 6
	for what, records := range map[string]uint64{"records": 1 << 18, "holes": 1 << 21} {
		t.Run(what, func(t *testing.T) {
			written := what == "records"
			r := newRig(t, Options{Workers: 1})
			var all, before uint64
			for range rings {
				reserved, _ := reserveRecords(t, r, records, func(uint64) bool { return written })
				all += reserved
			}
			taken := func() uint64 { s := r.d.Stats(); return s.Total.Rows + s.Total.Holes }
			for passes := 0; r.d.Stats().Finished < rings; passes++ {
				r.advanceClock(DefaultPoll)
				now := taken()
				most := uint64(lookRecords + rings*leastRecords)
				if !written {
					most *= 5 // the worker only examines holes, so it may take more of them
				}
				if passes > 0 && now-before > most || passes > 1000 {
					t.Fatalf("pass %d took %d, want at most %d", passes, now-before, most)
				}
				before = now
			}
			if n := taken(); n < all {
				t.Errorf("%d of %d were taken", n, all)
			}
		})
	}
}
