package ring

import (
	"os"
	"sync/atomic"
	"testing"
	"time"
	"unsafe"

	"github.com/cloudprofiler/cloudprofiler/channel"
)

// testConfig describes a small ring with one writer. If the ring is full, events are dropped.
func testConfig(change ...func(*Config)) Config {
	name, err := channel.ParseName("actor#1/start")
	if err != nil {
		panic(err)
	}
	c := Config{
		Name: name, Settings: channel.Settings{Kind: channel.Buffered}, Policy: channel.Drop,
		Records: MinRecords,
	}
	for _, f := range change {
		f(&c)
	}
	return c
}

func policy(p channel.Policy) func(*Config) { return func(c *Config) { c.Policy = p } }
func size(records uint64) func(*Config)     { return func(c *Config) { c.Records = records } }
func manyWriters(c *Config)                 { c.ManyWriters = true }
func linking(c *Config)                     { c.Settings = channel.Settings{Kind: channel.Link} }

// newRing makes a ring in a directory of its own, and closes the ring when the test ends.
func newRing(t testing.TB, change ...func(*Config)) *Producer {
	t.Helper()
	return newRingIn(t, t.TempDir(), 1, change...)
}

// newShards makes a ring for many writers with this many shards, however many cores the machine
// has.
func newShards(t testing.TB, shards int, records uint64, change ...func(*Config)) *Producer {
	t.Helper()
	p := newRingIn(t, t.TempDir(), shards, append(change, manyWriters, size(records))...)
	if len(p.Shards) != shards || p.Shards[0].Mask+1 != records {
		t.Fatalf("%d shards of %d records, want %d of %d", len(p.Shards), p.Shards[0].Mask+1,
			shards, records)
	}
	return p
}

func newRingIn(t testing.TB, dir string, cores int, change ...func(*Config)) *Producer {
	t.Helper()
	p, err := create(dir, testConfig(change...), cores)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.Close() })
	return p
}

func look(t testing.TB, path string) *Reader {
	t.Helper()
	r, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.Close() })
	return r
}

func drain(t testing.TB, path string) *Consumer {
	t.Helper()
	c, err := OpenConsumer(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

// The writer in this file follows FORMAT.md in the simplest way.

// putRecords writes records that share a counter, as the only writer. It returns false if the
// records were dropped.
func putRecords(s *Shard, counter uint64, ids ...uint64) bool {
	n := uint64(len(ids))
	tail := *s.Tail
	if tail+n > s.Limit && !s.Room(n, counter) {
		return false
	}
	for i, id := range ids {
		store(s, tail+uint64(i), Record{counter, id})
	}
	atomic.StoreUint64(s.Tail, tail+n)
	return true
}

// reservePlaces reserves places for n records, as one of many writers. It returns false if the
// records were dropped.
func reservePlaces(s *Shard, counter, n uint64) (seq uint64, ok bool) {
	for {
		tail := atomic.LoadUint64(s.Tail)
		if tail+n > atomic.LoadUint64(&s.Limit) {
			if !s.Room(n, counter) {
				return 0, false
			}
			continue
		}
		if atomic.CompareAndSwapUint64(s.Tail, tail, tail+n) {
			return tail, true
		}
	}
}

// putMany writes a record, as one of many writers.
func putMany(s *Shard, counter, id uint64) bool {
	seq, ok := reservePlaces(s, counter, 1)
	if ok {
		store(s, seq, Record{s.Finished(counter, seq), id})
	}
	return ok
}

func store(s *Shard, seq uint64, r Record) {
	at := (*Record)(unsafe.Add(s.Records, (seq&s.Mask)*RecordBytes))
	atomic.StoreUint64(&at.ID, r.ID)
	atomic.StoreUint64(&at.Counter, r.Counter)
}

// setHead sets the head to any value, even to a value that no valid drainer would set.
func setHead(p *Producer, shard int, head uint64) {
	atomic.StoreUint64(&p.Shards[shard].page.consumer.head, head)
}

// fakeClock is a clock for tests. Its time passes only in pauses, and each pause takes the same
// time.
type fakeClock struct {
	now         time.Duration
	step        time.Duration
	pauses      int
	duringPause func(pause int) // called in each pause, to do what the drainer does meanwhile
}

// installIn makes the shards of a ring use the clock.
func (c *fakeClock) installIn(p *Producer) *fakeClock {
	for i := range p.Shards {
		p.Shards[i].now = func() time.Duration { return c.now }
		p.Shards[i].pause = func(int) {
			c.now += c.step
			c.pauses++
			if c.duringPause != nil {
				c.duringPause(c.pauses)
			}
		}
	}
	return c
}

// copyAll copies all finished records of a shard. It begins at the given sequence number (from).
func copyAll(t testing.TB, r *Reader, i int,
	from uint64) (records []Record, first uint64, unfinished bool) {
	t.Helper()
	into := make([]Record, r.Header().Records)
	first, n, unfinished, err := r.Copy(i, from, into)
	if err != nil {
		t.Fatal(err)
	}
	return into[:n], first, unfinished
}

func writeFile(t testing.TB, path string, b []byte) {
	t.Helper()
	if err := os.WriteFile(path, b, 0o600); err != nil {
		t.Fatal(err)
	}
}
