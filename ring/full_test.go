package ring

import (
	"math/rand/v2"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cloudprofiler/cloudprofiler/channel"
	"github.com/cloudprofiler/cloudprofiler/internal/seed"
)

// fillRing writes records until there is no room for another.
func fillRing(p *Producer) {
	for s := &p.Shards[0]; *s.Tail < s.Limit; {
		putRecords(s, 1, *s.Tail)
	}
}

func TestBlockWaitsASecondInAll(t *testing.T) {
	p := newRing(t, policy(channel.Block))
	c := (&fakeClock{step: 10 * time.Millisecond}).installIn(p)
	s := &p.Shards[0]
	fillRing(p)
	if putRecords(s, 2, 0) {
		t.Fatal("a record went into a full ring")
	}
	if c.now != time.Second {
		t.Errorf("waited for %v, want 1s", c.now)
	}
	for i := range uint64(100) {
		if putRecords(s, 3+i, 0) {
			t.Fatal("a record went into a full ring")
		}
	}
	if c.now != time.Second {
		t.Errorf("waited for another %v after the drainer was given up", c.now-time.Second)
	}
	// The drainer moves the head again, which makes room for three records. When the ring is full
	// again, the program waits for another second.
	setHead(p, 0, 3)
	for i := range 3 {
		if !putRecords(s, 4, 0) {
			t.Fatalf("record %d has no room", i)
		}
	}
	if putRecords(s, 5, 0) || c.now != 2*time.Second {
		t.Errorf("waited for %v in all, want 2s", c.now)
	}
	state, err := look(t, p.Path).State(0)
	if err != nil || state.Dropped != 102 || state.Tail != MinRecords+3 {
		t.Errorf("state %+v, %v", state, err)
	}
}

func TestMovementStartsTheWaitAgain(t *testing.T) {
	p := newRing(t, policy(channel.Block), linking)
	s := &p.Shards[0]
	fill := func() {
		for *s.Tail+2 <= s.Limit {
			putRecords(s, 1, 8, 9)
		}
	}
	fill()
	c := (&fakeClock{step: 100 * time.Millisecond}).installIn(p)
	// One free place is not enough for a pair. The second place becomes free 900 ms later.
	c.duringPause = func(pause int) {
		switch pause {
		case 9:
			setHead(p, 0, 1)
		case 18:
			setHead(p, 0, 2)
		}
	}
	if !putRecords(s, 2, 8, 9) || c.now != 1800*time.Millisecond {
		t.Errorf("gave up after %v", c.now)
	}
	if state, err := look(t, p.Path).State(0); err != nil || state.Dropped != 0 {
		t.Errorf("state %+v, %v", state, err)
	}
}

// A head that moves without making room does not prolong a program's wait.
func TestNoMovementIsNotMovement(t *testing.T) {
	for name, head := range map[string]func(p *Producer, pause int) uint64{
		"to and fro": func(_ *Producer, pause int) uint64 { return uint64(pause % 2) },
		"back": func(_ *Producer, pause int) uint64 {
			return uint64(1000 - pause)
		},
		"past the tail": func(p *Producer, pause int) uint64 {
			return *p.Shards[0].Tail + uint64(pause)
		},
		"far past the tail": func(_ *Producer, pause int) uint64 {
			return 1<<64 - 1 - uint64(pause)
		},
		"at the tail's top bit": func(p *Producer, pause int) uint64 {
			return 1<<63 + uint64(pause)
		},
	} {
		p := newRing(t, policy(channel.Block), linking)
		s := &p.Shards[0]
		putRecords(s, 1, 8, 9)
		setHead(p, 0, 1) // so that "to and fro" had both of its heads before the wait
		s.refreshHead(1)
		setHead(p, 0, 0)
		for *s.Tail+2 <= s.Limit {
			putRecords(s, 1, 8, 9)
		}
		c := (&fakeClock{step: 10 * time.Millisecond, duringPause: nil}).installIn(p)
		c.duringPause = func(pause int) {
			if pause > 1000 {
				t.Fatalf("%s: the wait does not end", name)
			}
			setHead(p, 0, head(p, pause))
		}
		if putRecords(s, 2, 8, 9) {
			t.Errorf("%s: there was room", name)
		}
		if c.now > time.Second {
			t.Errorf("%s: waited for %v", name, c.now)
		}
	}
}

// If the drainer is dead, a program waits one second in total, and not one second in each shard and
// ring.
func TestAllRingsOfADirectoryWaitOnce(t *testing.T) {
	dir := t.TempDir()
	c := &fakeClock{step: 10 * time.Millisecond}
	var rings []*Producer
	for range 3 {
		p := newRingIn(t, dir, 2, policy(channel.Block), manyWriters)
		c.installIn(p)
		rings = append(rings, p)
	}
	elsewhere := newRing(t, policy(channel.Block))
	c.installIn(elsewhere)
	for _, p := range rings {
		for i := range p.Shards {
			for range MinRecords + 5 {
				putMany(&p.Shards[i], 1, 1)
			}
		}
	}
	if c.now != time.Second {
		t.Errorf("waited for %v in all", c.now)
	}
	fillRing(elsewhere)
	putRecords(&elsewhere.Shards[0], 1, 1)
	if c.now != 2*time.Second {
		t.Errorf("the wait in another directory took %v", c.now-time.Second)
	}
	// The drainer comes back and frees one shard. The shard that waited in vain still drops at
	// once, because its own head has not moved. All other shards wait again, until the drainer has
	// been gone for another second.
	setHead(rings[1], 1, 1)
	if !putMany(&rings[1].Shards[1], 1, 1) || putMany(&rings[0].Shards[0], 1, 1) {
		t.Error("room where the head is still, or none where it moved")
	}
	if c.now != 2*time.Second {
		t.Errorf("a shard that was given up itself waits again, %v, though its head did not move",
			c.now-2*time.Second)
	}
	if putMany(&rings[2].Shards[0], 1, 1) || c.now > 3*time.Second {
		t.Errorf("waited for %v", c.now)
	}
}

// A writer reads the tail, and then other writers and the drainer move on. The head is now above
// the old tail, and the writer sees room.
func TestAHeadPastAnOldTailIsRoom(t *testing.T) {
	p := newShards(t, 1, MinRecords)
	s := &p.Shards[0]
	for i := range uint64(MinRecords) {
		putMany(s, i, i)
	}
	setHead(p, 0, MinRecords)
	if room, moved := s.refreshHead(1); !room || !moved {
		t.Errorf("room %v, moved %v", room, moved)
	}
	if room, moved := s.refreshHead(1); !room || moved {
		t.Errorf("again: room %v, moved %v", room, moved)
	}
}

func TestCloseFreesAWaitingWriter(t *testing.T) {
	p := newRing(t, policy(channel.Block))
	fillRing(p)
	c := (&fakeClock{step: time.Millisecond}).installIn(p)
	c.duringPause = func(pause int) {
		if pause == 5 {
			p.Close()
		}
	}
	putRecords(&p.Shards[0], 1, 1) // after the close, this writes into memory that nobody reads
	if c.pauses != 5 {
		t.Errorf("%d pauses", c.pauses)
	}
}

// droppedEvent is one dropped event in the model that the next test compares with the ring.
type droppedEvent struct{ at, counter uint64 }

// Every dropped event is counted once, in a range at its place in the sequence, no matter what the
// drainer takes, and when.
func TestDropsAreCountedWhereTheyWere(t *testing.T) {
	rng := seed.Random(t)
	for range 50 {
		p := newRing(t)
		dropsModel(t, rng, p)
		p.Close()
	}
}

func dropsModel(t *testing.T, rng *rand.Rand, p *Producer) {
	t.Helper()
	s, c := &p.Shards[0], drain(t, p.Path)
	defer c.Close()
	var dropped []droppedEvent // all dropped events, in order
	var counted uint64         // the number of events in released ranges
	var overflow = false       // the table was full since the last release
	var released uint64        // the number of released ranges
	var head, next uint64      // the ring's head, and the counter of the next event

	check := func() {
		t.Helper()
		ranges, before, err := c.Drops(0)
		if err != nil {
			t.Fatal(err)
		}
		if before != released {
			t.Fatalf("%d ranges before, want %d", before, released)
		}
		sum := counted
		for _, r := range ranges {
			for k := range r.Count {
				d := dropped[sum+k]
				if d.counter < r.FirstCounter || d.counter > r.LastCounter || d.at < r.At ||
					d.at != r.At && !overflow {
					t.Fatalf("event %+v was dropped, its range says %+v", d, r)
				}
			}
			sum += r.Count
		}
		if state, err := c.State(0); err != nil || sum != uint64(len(dropped)) ||
			state.Dropped != sum {
			t.Fatalf("%d events dropped, ranges have %d, the ring counts %d (%v)", len(dropped),
				sum, state.Dropped, err)
		}
	}
	for range rng.IntN(400) {
		switch what := rng.IntN(10); {
		case what < 6: // the program logs one event
			next += rng.Uint64N(5)
			if tail := *s.Tail; !putRecords(s, next, 1) {
				dropped = append(dropped, droppedEvent{tail, next})
				overflow = overflow || s.page.producer.drops-released == DropsSize
			}
		case what < 9: // the drainer frees places
			head += rng.Uint64N(*s.Tail - head + 1)
			if err := c.Release(0, head, released, 0); err != nil {
				t.Fatal(err)
			}
		default: // the drainer takes ranges, but rarely, so that the table also fills up
			check()
			if rng.IntN(8) > 0 {
				continue
			}
			ranges, _, err := c.Drops(0)
			if err != nil {
				t.Fatal(err)
			}
			// The last range may still grow, so a drainer does not take it.
			for _, r := range ranges[:max(len(ranges), 1)-1] {
				counted += r.Count
				released++
			}
			if err := c.Release(0, head, released, 0); err != nil {
				t.Fatal(err)
			}
			overflow = overflow && s.page.producer.drops != released
		}
	}
	check()
}

func TestFullTableOfDropsKeepsTheCount(t *testing.T) {
	p := newRing(t)
	s, c := &p.Shards[0], drain(t, p.Path)
	fillRing(p)
	for i := range uint64(DropsSize + 10) { // drop each event at another place
		if putRecords(s, 100+i, 1) {
			t.Fatal("room in a full ring")
		}
		if err := c.Release(0, i+1, 0, 0); err != nil {
			t.Fatal(err)
		}
		if !putRecords(s, 100+i, 1) {
			t.Fatal("no room though the head moved")
		}
	}
	ranges, before, err := c.Drops(0)
	if err != nil || before != 0 || len(ranges) != DropsSize {
		t.Fatalf("%d ranges, %d before, %v", len(ranges), before, err)
	}
	last := ranges[DropsSize-1]
	want := DropRange{
		At: MinRecords + DropsSize - 1, Before: DropsSize - 1, Count: 11,
		FirstCounter: 100 + DropsSize - 1, LastCounter: 100 + DropsSize + 9,
	}
	if last != want {
		t.Errorf("last range %+v, want %+v", last, want)
	}
	if err := c.Release(0, *s.Tail, DropsSize, 0); err != nil {
		t.Fatal(err)
	}
	for range MinRecords {
		putRecords(s, 999, 1)
	}
	putRecords(s, 1000, 1)
	ranges, before, err = c.Drops(0)
	if err != nil || before != DropsSize || len(ranges) != 1 || ranges[0].Count != 1 ||
		ranges[0].FirstCounter != 1000 {
		t.Errorf("after the release: %+v, %d before, %v", ranges, before, err)
	}
}

// If a range begins while a reader reads the table, the events of the new range are not added to
// the range before it.
func TestDropsUnderAWriter(t *testing.T) {
	p := newRing(t)
	s, c := &p.Shards[0], drain(t, p.Path)
	const places = 3000
	done := make(chan struct{})
	go func() {
		defer close(done)
		for at := range uint64(places) {
			// At each place, drop 1 + at%3 events, in the way in which Room drops them if there is
			// no room.
			for range 1 + at%3 {
				for s.page.producer.drops-atomic.LoadUint64(&s.page.consumer.drops) >= DropsSize-1 {
					pauseBriefly(0)
				}
				s.dropEvent(at)
			}
			atomic.StoreUint64(s.Tail, at+1)
		}
	}()
	at := uint64(0)
	for at < places-1 {
		ranges, before, err := c.Drops(0)
		if err != nil {
			t.Fatal(err)
		}
		for i, r := range ranges {
			last := i == len(ranges)-1
			if r.At != at+uint64(i) || r.Count > 1+r.At%3 || !last && r.Count != 1+r.At%3 {
				t.Fatalf("range %+v (last %v), want %d at %d", r, last, 1+r.At%3, at+uint64(i))
			}
		}
		if n := len(ranges); n > 1 {
			at += uint64(n) - 1
			atomic.StoreUint64(&s.page.consumer.drops, before+uint64(n)-1)
		}
		atomic.StoreUint64(&s.page.consumer.head, atomic.LoadUint64(s.Tail))
		c.heads[0] = atomic.LoadUint64(&s.page.consumer.head)
	}
	<-done
}

// If many writers drop events, the events may not reach the table in the order of their counters.
// Even then, all their counters lie in the interval from the first to the last counter of their
// range.
func TestDropsOfManyWritersAreIntervals(t *testing.T) {
	p := newShards(t, 1, MinRecords)
	s := &p.Shards[0]
	for i := range uint64(MinRecords) {
		putMany(s, i, i)
	}
	for _, counter := range []uint64{50, 40, 60, 45} {
		putMany(s, counter, 1)
	}
	ranges, _, err := look(t, p.Path).Drops(0)
	if err != nil || len(ranges) != 1 ||
		ranges[0] != (DropRange{At: MinRecords, Count: 4, FirstCounter: 40, LastCounter: 60}) {
		t.Errorf("%+v, %v", ranges, err)
	}
}

func TestOverwriteNeverWaitsNorDrops(t *testing.T) {
	p := newRing(t, policy(channel.Overwrite))
	c := (&fakeClock{step: time.Millisecond}).installIn(p)
	for i := range uint64(10 * MinRecords) {
		if !putRecords(&p.Shards[0], i, i) {
			t.Fatal("dropped")
		}
	}
	if state, err := look(t, p.Path).State(0); err != nil || state.Dropped != 0 || c.pauses != 0 {
		t.Errorf("%+v, %d pauses, %v", state, c.pauses, err)
	}
}
