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

func TestPace(t *testing.T) {
	const records = 1 << 16
	for _, test := range []struct {
		name        string
		p           shardPlace
		tail, head  uint64 // the ring's tail and head at this look
		from, below time.Duration
	}{
		{"nothing ever came", shardPlace{}, 0, 0, time.Minute, 2 * time.Hour},
		{
			"a million a second", shardPlace{head: 1000}, 1000, 0, 8 * time.Millisecond,
			8300 * time.Microsecond,
		},
		{
			"a million a second before, nothing now", shardPlace{rate: 1e6, head: 1000, tail: 1000},
			1000, 1000, 16 * time.Millisecond, 17 * time.Millisecond,
		},
		{
			"a million a second, and much waits", shardPlace{}, 8192, 0, 4 * time.Millisecond,
			4200 * time.Microsecond,
		},
		{"a quarter waits", shardPlace{}, records / 4, 0, 0, 1},
		{
			"it was full, and is empty now", shardPlace{head: records}, records, 0,
			60 * time.Microsecond, 100 * time.Microsecond,
		},
		{
			"a writer is at it", shardPlace{unfinished: true}, records, 0, time.Millisecond,
			time.Millisecond + 1,
		},
	} {
		now := time.Millisecond // the time since the last look
		if test.tail == 8192 {
			now = 8192 * time.Microsecond
		}
		if got := test.p.waitTime(ring.State{Tail: test.tail, Head: test.head}, now,
			records); got < test.from || got >= test.below {
			t.Errorf("%s: the next look after %s, want %s to %s", test.name, got, test.from,
				test.below)
		}
	}
}

// If rows remain after a long block, they wait and become part of the next long block.
func TestBlocksStayLong(t *testing.T) {
	seed.NotUnderRace(t, "nothing runs side by side")
	r := newRig(t, Options{})
	c := r.open("a/b", handlers.Options{Buffer: "16MiB"})
	r.advanceClock(DefaultPoll)
	var id uint64
	for range 120 {
		for range 70_000 {
			c.Log(id)
			id++
		}
		r.advanceClock(DefaultPoll)
	}
	if s := r.statsOf("a/b"); s.Rows/s.Blocks < 60_000 {
		t.Errorf("%d rows in %d blocks", s.Rows, s.Blocks)
	}
}

func TestAChannelThatClosesIsFinishedAtOnce(t *testing.T) {
	r := newRig(t, Options{})
	c := r.open("a/b", handlers.Options{})
	r.runFor(time.Second)
	c.Log(1)
	c.Close()
	r.runFor(3 * DefaultPoll)
	if r.d.Stats().Finished != 1 {
		t.Errorf("%+v", r.d.Stats())
	}
}

// If the table of dropped ranges is full, the program extends the last range, even if the tail has
// moved since the range began. The range is complete only when there is a newer range.
func TestLastRangeOfAFullTable(t *testing.T) {
	r := newRig(t, Options{})
	c := r.open("a/b", handlers.Options{Policy: "drop", Buffer: "256"}) // the ring has 16 records
	before, err := ring.OpenConsumer(c.Path())
	if err != nil {
		t.Fatal(err)
	}
	var id uint64
	drop := func() {
		for range 17 {
			c.Log(id)
			id++
		}
	}
	for i := range uint64(ring.DropsSize + 5) {
		drop()
		// This consumer has released the records of the ring, but no ranges of drops.
		if err := before.Release(0, 16*(i+1), 0, 0); err != nil {
			t.Fatal(err)
		}
	}
	before.Close()
	r.runFor(time.Second)
	c.Log(id)
	id++
	r.runFor(time.Second)
	check := func(ranges int, events uint64) {
		t.Helper()
		log := readLogs(t, r.logs)["a/b"]
		var rows int
		for _, d := range log.drops[0] {
			if logstore.Reason(d.Reason) == logstore.RingFull {
				rows++
			}
		}
		if rows != ranges || log.droppedRows(logstore.RingFull) != events {
			t.Fatalf("%d ranges of %d events, want %d of %d", rows,
				log.droppedRows(logstore.RingFull), ranges, events)
		}
	}
	check(ring.DropsSize-1, ring.DropsSize-1)
	for range 17 {
		c.Log(id) // the program begins another range
	}
	r.runFor(time.Second)
	c.Log(id)
	r.runFor(time.Second)
	check(ring.DropsSize+1, ring.DropsSize+5+1)
	if settings := r.statsOf("a/b").Settings; settings.Kind != channel.Buffered {
		t.Errorf("%s", settings)
	}
}

// If half of a ring is waiting, the drainer does not take the time to compress.
func TestAFullRingIsDrainedInAHurry(t *testing.T) {
	for _, test := range []struct {
		name    string
		events  uint64
		close   bool
		hurried int
	}{
		{"half of the ring", 2048, false, 2048},
		{"all of the ring", 4096, false, 4096},
		{"less than half", 2047, false, 0},
		{"the program has ended, so it waits for nothing", 4096, true, 0},
	} {
		t.Run(test.name, func(t *testing.T) {
			r := newRig(t, Options{})
			c := r.open("a/start", handlers.Options{Handler: "buffered", Buffer: "64KiB"})
			for i := range test.events {
				c.Log(i)
			}
			if test.close {
				c.Close()
			}
			r.runFor(200 * time.Millisecond)
			c.Close()
			r.runFor(200 * time.Millisecond)
			log := readLogs(t, r.logs)["a/start"]
			log.checkIntact(t)
			wantIDs(t, log.events[0], test.events)
			if log.hurried != test.hurried {
				t.Errorf("%d events in hurried blocks, want %d", log.hurried, test.hurried)
			}
		})
	}
}
