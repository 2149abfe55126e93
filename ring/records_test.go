package ring

import (
	"math/rand/v2"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"unsafe"

	"github.com/cloudprofiler/cloudprofiler/channel"
	"github.com/cloudprofiler/cloudprofiler/internal/seed"
)

// In these tests the counter of a record is a function of its id, so a test recognizes a torn or
// invented record.
func counterOf(id uint64) uint64 { return (id*0x9E3779B97F4A7C15)>>1 | 1 }

func TestOneWriterInOrder(t *testing.T) {
	rng := seed.Random(t)
	for _, records := range []uint64{16, 32, 1024} {
		p := newRing(t, size(records))
		s, c := &p.Shards[0], drain(t, p.Path)
		into := make([]Record, records)
		var in, out, head uint64
		for out < 20*records {
			for range rng.Uint64N(records + 1) {
				if putRecords(s, counterOf(in), in) {
					in++
				}
			}
			first, n, unfinished, err := c.Copy(0, out, into[:rng.IntN(len(into)+1)])
			if err != nil || unfinished || first != out {
				t.Fatalf("first %d, unfinished %v, %v, want %d", first, unfinished, err, out)
			}
			for _, r := range into[:n] {
				if r.ID != out || r.Counter != counterOf(out) {
					t.Fatalf("sequence %d is %+v", out, r)
				}
				out++
			}
			head += rng.Uint64N(out - head + 1)
			if err := c.Release(0, head, s.page.producer.drops, 0); err != nil {
				t.Fatal(err)
			}
		}
	}
}

func TestCopyBesideTheRecords(t *testing.T) {
	p := newRing(t)
	for i := range uint64(10) {
		putRecords(&p.Shards[0], i, i)
	}
	c := drain(t, p.Path)
	if err := c.Release(0, 4, 0, 0); err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct{ from, first, n uint64 }{
		{0, 4, 6}, {4, 4, 6}, {9, 9, 1}, {10, 10, 0}, {11, 11, 0}, {1<<64 - 1, 1<<64 - 1, 0},
	} {
		into := make([]Record, 20)
		first, n, _, err := c.Copy(0, test.from, into)
		if err != nil || first != test.first || uint64(n) != test.n ||
			n > 0 && into[0].ID != first {
			t.Errorf("from %d: first %d, n %d, %v, want %d and %d", test.from, first, n, err,
				test.first, test.n)
		}
	}
	if _, n, _, err := c.Copy(0, 4, nil); n != 0 || err != nil {
		t.Errorf("into nothing: %d, %v", n, err)
	}
}

func TestOverwriteKeepsTheLastButOne(t *testing.T) {
	for name, ring := range map[string]struct {
		held   uint64
		change []func(*Config)
	}{
		"records": {MinRecords - 1, []func(*Config){policy(channel.Overwrite)}},
		"pairs":   {MinRecords - 2, []func(*Config){policy(channel.Overwrite), linking}},
	} {
		t.Run(name, func(t *testing.T) {
			p := newRing(t, ring.change...)
			s, r := &p.Shards[0], look(t, p.Path)
			if r.Header().Links != (name == "pairs") {
				t.Fatalf("Links = %v", r.Header().Links)
			}
			for tail := uint64(0); tail < 5*MinRecords; {
				records, first, _ := copyAll(t, r, 0, 0)
				oldest := max(tail, ring.held) - ring.held
				if first != oldest || uint64(len(records)) != tail-oldest {
					t.Fatalf("tail %d: %d records from %d on, want from %d on", tail, len(records),
						first, oldest)
				}
				for i, got := range records {
					if id := first + uint64(i); got.ID != id ||
						name == "records" && got.Counter != counterOf(id) {
						t.Fatalf("sequence %d is %+v", id, got)
					}
				}
				if name == "pairs" {
					putRecords(s, counterOf(tail), tail, tail+1)
				} else {
					putRecords(s, counterOf(tail), tail)
				}
				tail = *s.Tail
			}
		})
	}
}

// If a writer is killed between its stores, readers do not see the unfinished record.
func TestOverwriteHidesWhatIsBeingWritten(t *testing.T) {
	for _, n := range []uint64{1, 2} {
		change := []func(*Config){policy(channel.Overwrite)}
		if n == 2 {
			change = append(change, linking)
		}
		p := newRing(t, change...)
		s, r := &p.Shards[0], look(t, p.Path)
		for i := uint64(0); i < 2*MinRecords; i += n {
			putRecords(s, 7, []uint64{i, i + 1}[:n]...)
		}
		for i := range n { // the stores happen, but the tail does not move
			store(s, *s.Tail+i, Record{666, 666})
		}
		records, _, _ := copyAll(t, r, 0, 0)
		for _, got := range records {
			if got.ID == 666 {
				t.Errorf("n = %d: a record shows that is not published", n)
			}
		}
		if uint64(len(records)) != MinRecords-n {
			t.Errorf("n = %d: %d records", n, len(records))
		}
	}
}

func TestOverwriteUnderAWriter(t *testing.T) {
	rng := seed.Random(t)
	const records = 1024
	p := newRing(t, policy(channel.Overwrite), size(records))
	s, r := &p.Shards[0], look(t, p.Path)
	var stop atomic.Bool
	var writer sync.WaitGroup
	writer.Go(func() {
		for id := uint64(0); !stop.Load(); id++ {
			putRecords(s, counterOf(id), id)
			if id%100 == 0 {
				runtime.Gosched()
			}
		}
	})
	defer writer.Wait()
	defer stop.Store(true)
	into := make([]Record, records)
	seen, trimmed := 0, 0
	for seen < 10_000 {
		state, err := r.State(0)
		if err != nil {
			t.Fatal(err)
		}
		from := state.Tail - min(state.Tail, rng.Uint64N(records))
		first, n, unfinished, err := r.Copy(0, from, into)
		if err != nil || unfinished || first < from || n >= records {
			t.Fatalf("from %d: first %d, n %d, unfinished %v, %v", from, first, n, unfinished, err)
		}
		for i, got := range into[:n] {
			if id := first + uint64(i); got.ID != id || got.Counter != counterOf(id) {
				t.Fatalf("sequence %d is %+v, want counter %d", id, got, counterOf(id))
			}
		}
		if n == 0 {
			runtime.Gosched()
			continue
		}
		seen++
		if first > from {
			trimmed++
		}
	}
	t.Logf("of %d copies %d lost their oldest", seen, trimmed)
}

// While a drainer drains a ring, another reader of the ring sees only true records and no damage.
func TestLookingOnUnderADrainer(t *testing.T) {
	for _, many := range []bool{false, true} {
		change := []func(*Config){policy(channel.Block), size(64)}
		write := func(s *Shard, id uint64) { putRecords(s, counterOf(id)&counterMask, id) }
		if many {
			change = append(change, manyWriters)
			write = func(s *Shard, id uint64) { putMany(s, counterOf(id), id) }
		}
		p := newRing(t, change...)
		s, c, r := &p.Shards[0], drain(t, p.Path), look(t, p.Path)
		const events = 200_000
		var both sync.WaitGroup
		both.Go(func() {
			for id := range uint64(events) {
				write(s, id)
			}
		})
		var failed atomic.Bool
		both.Go(func() {
			into := make([]Record, 64)
			for next := uint64(0); next < events && !failed.Load(); {
				_, n, _, err := c.Copy(0, next, into)
				next += uint64(n)
				if err == nil {
					err = c.Release(0, next, 0, 0)
				}
				if err != nil {
					t.Error(err)
					failed.Store(true)
				}
				if n == 0 {
					runtime.Gosched()
				}
			}
		})
		into := make([]Record, 64)
		for next := uint64(0); next < events && !failed.Load(); {
			first, n, _, err := r.Copy(0, next, into)
			if err != nil {
				t.Error(err)
				failed.Store(true)
				break
			}
			for i, got := range into[:n] {
				if id := first + uint64(i); got.ID != id ||
					got.Counter != counterOf(id)&counterMask {
					t.Errorf("many %v: sequence %d is %+v, want counter %d", many, id, got,
						counterOf(id)&counterMask)
					failed.Store(true)
					break
				}
			}
			next = first + uint64(n)
			if n == 0 {
				runtime.Gosched()
			}
		}
		if failed.Load() { // let the writer go on, so that it ends
			p.Close()
		}
		both.Wait()
	}
}

func TestManyWritersInAndOut(t *testing.T) {
	const writers, each, shards = 4, 20_000, 2
	p := newShards(t, shards, 64, policy(channel.Block))
	c := drain(t, p.Path)
	var all sync.WaitGroup
	for w := range uint64(writers) {
		all.Go(func() {
			rng := rand.New(rand.NewPCG(w, 0))
			for i := range uint64(each) {
				// The record's counter is the writer's own count, so that the reader can check it.
				// The reader could not check readings of the CPU's counter, because goroutines
				// change cores at any time.
				if !putMany(&p.Shards[rng.IntN(shards)], i, w<<32|i) {
					t.Error("dropped while the drainer moves")
				}
			}
		})
	}
	var got [writers][shards]uint64 // each writer's last id in each shard, plus one
	seen := make(map[uint64]bool)
	into := make([]Record, 64)
	var next [shards]uint64
	for len(seen) < writers*each && !t.Failed() {
		before := len(seen)
		for i := range shards {
			first, n, _, err := c.Copy(i, next[i], into)
			if err != nil || first != next[i] {
				t.Errorf("first %d, want %d, %v", first, next[i], err)
				p.Close()
				break
			}
			for _, r := range into[:n] {
				w, id := r.ID>>32, r.ID&(1<<32-1)
				if w >= writers || r.Counter != id || id < got[w][i] || seen[r.ID] {
					t.Errorf("record %+v of writer %d: after %d, seen before %v", r, w, got[w][i],
						seen[r.ID])
				}
				got[w][i] = id + 1
				seen[r.ID] = true
			}
			next[i] += uint64(n)
			if err := c.Release(i, next[i], 0, 0); err != nil {
				t.Error(err)
			}
		}
		if len(seen) == before {
			runtime.Gosched()
		}
	}
	all.Wait()
	if len(seen) != writers*each {
		t.Errorf("%d of %d events came out", len(seen), writers*each)
	}
}

// Over many laps of a tiny ring, some writers reserve a record and stop, some store one word and
// stop, and some finish. The reader reports exactly those records as finished that writers finished
// in the present lap.
func TestLapsOfManyWriters(t *testing.T) {
	rng := seed.Random(t)
	for range 300 {
		p := newShards(t, 1, MinRecords)
		lapsModel(t, rng, p)
		p.Close()
	}
}

func lapsModel(t *testing.T, rng *rand.Rand, p *Producer) {
	t.Helper()
	const reserved, idStored, finished = 0, 1, 2
	s, c := &p.Shards[0], drain(t, p.Path)
	defer c.Close()
	var progress []int // how far the writer of each sequence number has got
	head := uint64(0)
	into := make([]Record, MinRecords)
	slot := func(seq uint64) *Record {
		return (*Record)(unsafe.Add(s.Records, seq%MinRecords*RecordBytes))
	}
	step := func(seq uint64) {
		switch progress[seq] {
		case reserved:
			atomic.StoreUint64(&slot(seq).ID, seq)
		case idStored:
			atomic.StoreUint64(&slot(seq).Counter, s.Finished(counterOf(seq), seq))
		default:
			return
		}
		progress[seq]++
	}
	check := func(from uint64) (n int) {
		t.Helper()
		first, n, unfinished, err := c.Copy(0, from, into)
		if err != nil || first != from {
			t.Fatalf("first %d, want %d, %v", first, from, err)
		}
		want := from
		for want < uint64(len(progress)) && progress[want] == finished {
			want++
		}
		if from+uint64(n) != want || unfinished != (want < uint64(len(progress))) {
			t.Fatalf("from %d of %d: %d finished, unfinished %v, want %d", from, len(progress), n,
				unfinished, want-from)
		}
		for i, r := range into[:n] {
			if seq := from + uint64(i); r.ID != seq || r.Counter != counterOf(seq)&counterMask {
				t.Fatalf("sequence %d is %+v", seq, r)
			}
		}
		return n
	}
	for range 100 + rng.IntN(400) {
		switch rng.IntN(4) {
		case 0:
			if _, ok := reservePlaces(s, 1, 1); ok {
				progress = append(progress, reserved)
			}
		case 1, 2:
			if open := uint64(len(progress)) - head; open > 0 {
				step(head + rng.Uint64N(open))
			}
		case 3:
			n := uint64(check(head))
			head += rng.Uint64N(n + 1)
			if err := c.Release(0, head, 0, 0); err != nil {
				t.Fatal(err)
			}
		}
	}
	// The owner dies. The reader continues after each hole, up to the tail.
	for from := head; from < uint64(len(progress)); {
		n := uint64(check(from))
		if from += n; from < uint64(len(progress)) && progress[from] == finished {
			t.Fatalf("sequence %d is finished and shown as a hole", from)
		}
		from++
	}
}

func TestHolesAreNotRecords(t *testing.T) {
	p := newShards(t, 1, MinRecords)
	s, c := &p.Shards[0], drain(t, p.Path)
	for seq := uint64(0); seq < 3*MinRecords; seq += 2 {
		putMany(s, seq, seq)
		reservePlaces(s, 0, 1)
		records, _, unfinished := copyAll(t, &c.Reader, 0, seq)
		if len(records) != 1 || records[0].ID != seq || !unfinished {
			t.Fatalf("sequence %d: %+v, unfinished %v", seq, records, unfinished)
		}
		records, _, unfinished = copyAll(t, &c.Reader, 0, seq+1)
		if len(records) != 0 || !unfinished {
			t.Fatalf("hole %d: %+v, unfinished %v", seq+1, records, unfinished)
		}
		// The writer finishes the record late, and only then does the head move past it. If the
		// head moved past the record earlier, the record's place would keep the mark of the
		// previous lap, which is also the mark of the next lap.
		store(s, seq+1, Record{s.Finished(1, seq+1), 1})
		if err := c.Release(0, seq+2, 0, 0); err != nil {
			t.Fatal(err)
		}
	}
}

func TestCountersHave63Bits(t *testing.T) {
	for _, counter := range []uint64{0, 1, 1<<63 - 1, 1 << 63, 1<<64 - 1} {
		p, many := newRing(t), newShards(t, 1, MinRecords)
		putRecords(&p.Shards[0], counter, 5)
		putMany(&many.Shards[0], counter, 5)
		for _, path := range []string{p.Path, many.Path} {
			records, _, _ := copyAll(t, look(t, path), 0, 0)
			if len(records) != 1 || records[0] != (Record{counter &^ (1 << 63), 5}) {
				t.Errorf("counter %#x comes out as %+v", counter, records)
			}
		}
	}
}

func TestFirstLastOfManyShards(t *testing.T) {
	p := newShards(t, 4, MinRecords)
	r := look(t, p.Path)
	if got, err := r.FirstAndLast(); err != nil || got != (FirstAndLast{}) {
		t.Errorf("fresh: %+v, %v", got, err)
	}
	p.Shards[2].FirstLast().Put(Record{30, 1})
	p.Shards[0].FirstLast().Put(Record{20, 2})
	p.Shards[3].FirstLast().Put(Record{10, 3})
	p.Shards[3].FirstLast().Put(Record{40, 4})
	p.Shards[3].FirstLast().Put(Record{35, 5})
	p.Shards[1].FirstLast().Put(Record{70, channel.Poison})
	p.Shards[0].FirstLast().Put(Record{60, channel.Poison})
	p.Shards[0].FirstLast().Put(Record{50, channel.Poison})
	got, err := r.FirstAndLast()
	want := FirstAndLast{Count: 5, First: Record{10, 3}, Last: Record{35, 5}, PoisonCounter: 60}
	if err != nil || got != want {
		t.Errorf("%+v, %v, want %+v", got, err, want)
	}
	shard := &p.Shards[0]
	if !shard.ClaimCell() || shard.ClaimCell() {
		t.Error("a cell is claimed twice, or not at all")
	}
	if shard.ReleaseCell(); !shard.ClaimCell() {
		t.Error("a released cell cannot be claimed")
	}
}

// A reader reads the cell of first-last while a writer writes to it without a pause. The reader
// always returns the content that the cell had at one moment.
func TestFirstLastUnderAWriter(t *testing.T) {
	p := newRing(t)
	r, cell := look(t, p.Path), p.Shards[0].FirstLast()
	var stop atomic.Bool
	var writer sync.WaitGroup
	writer.Go(func() {
		for id := uint64(0); !stop.Load(); id++ {
			cell.Put(Record{counterOf(id), id})
		}
	})
	defer writer.Wait()
	defer stop.Store(true)
	for seen := 0; seen < 2_000_000; {
		got, err := r.FirstAndLast()
		if err != nil {
			t.Fatal(err)
		}
		if got.Count == 0 {
			runtime.Gosched()
			continue
		}
		seen++
		if got.First != (Record{counterOf(0), 0}) ||
			got.Last != (Record{counterOf(got.Count - 1), got.Count - 1}) {
			t.Fatalf("%+v", got)
		}
	}
}
