package handlers

import (
	"encoding/binary"
	"os"
	"testing"
	"unsafe"

	"github.com/cloudprofiler/cloudprofiler/channel"
	"github.com/cloudprofiler/cloudprofiler/ring"
)

// allHandlers lists the handlers. Their parameters make downsample and xoy keep the ids 0, 5, 10 …
var allHandlers = []struct {
	name   string
	params channel.Params
}{
	{"null", nil},
	{"id", nil},
	{"buffered", nil},
	{"counter", nil},
	{"downsample", channel.Params{"n": 3}},
	{"xoy", channel.Params{"x": 2, "y": 5}},
	{"first-last", nil},
	{"link", nil},
}

// allWriters lists the ways in which a channel may write.
var allWriters = []struct {
	name  string
	many  bool
	stamp string
}{
	{"Open", false, "rdtscp"},
	{"Open with rdtsc", false, "rdtsc"},
	{"OpenShared", true, "rdtscp"},
}

// openTest opens a channel in a directory of its own, and closes the channel when the test ends.
func openTest(t *testing.T, many bool, o Options) *Channel {
	t.Helper()
	if o.Dir == "" {
		o.Dir = t.TempDir()
	}
	c, err := open("actor#1/start", o, many)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

// readRecords reads all finished records of a channel's ring, one shard after the other.
func readRecords(t *testing.T, c *Channel) [][]ring.Record {
	t.Helper()
	r, err := ring.Open(c.Path())
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	var all [][]ring.Record
	for i := range r.Header().Shards {
		buffer := make([]ring.Record, r.Header().Records)
		s, err := r.State(i)
		if err != nil {
			t.Fatal(err)
		}
		_, n, unfinished, err := r.Copy(i, s.Head, buffer)
		if err != nil || unfinished {
			t.Fatalf("copy shard %d: unfinished %v, %v", i, unfinished, err)
		}
		all = append(all, buffer[:n])
	}
	return all
}

func TestIdentityKeepsEveryEventInOrder(t *testing.T) {
	for _, many := range []bool{false, true} {
		c := openTest(t, many, Options{Handler: "id"})
		const n = 1000
		for i := range uint64(n) {
			c.Log(i)
		}
		seen := make(map[uint64]bool)
		for _, shard := range readRecords(t, c) {
			for k, r := range shard {
				if k > 0 && (r.Counter < shard[k-1].Counter || r.ID <= shard[k-1].ID) {
					t.Fatalf("many=%v: record %d is %v after %v", many, k, r, shard[k-1])
				}
				seen[r.ID] = true
			}
		}
		if len(seen) != n {
			t.Fatalf("many=%v: %d different ids, want %d", many, len(seen), n)
		}
	}
}

func TestNoOps(t *testing.T) {
	var missing *Channel
	failed, err := Open("no point", Options{})
	if err == nil || failed == nil {
		t.Fatalf("Open = %v, %v, want a channel and an error", failed, err)
	}
	closed := openTest(t, false, Options{})
	closed.Close()
	for name, c := range map[string]*Channel{"nil": missing, "failed": failed, "closed": closed} {
		c.Log(1)
		c.Link(1, 2)
		if err := c.Close(); err != nil {
			t.Errorf("%s: Close() = %v", name, err)
		}
		c.Log(1)
	}
}

// A Channel must begin at the beginning of a cache line. Otherwise a log call would need more cache
// lines.
func TestChannelBeginsAtACacheLine(t *testing.T) {
	for range 100 {
		c := openTest(t, false, Options{Buffer: "1KiB"})
		if at := uintptr(unsafe.Pointer(c)); at%64 != 0 {
			t.Fatalf("channel at %#x", at)
		}
	}
}

// scribble writes settings and a switching word into a ring without any check. It writes the word
// to two places: the place for one writer, and the place for many writers. Only one of these places
// is in use.
func scribble(path string, word ring.Word, slot int, s channel.Settings) error {
	const one, many, slots, slotBytes = 4096 + 48, 1024, 1024 + 64, 32
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	defer f.Close()
	var b []byte
	for _, v := range []uint64{uint64(s.Kind), s.A, s.B} {
		b = binary.NativeEndian.AppendUint64(b, v)
	}
	if _, err := f.WriteAt(b, int64(slots+slot*slotBytes)); err != nil {
		return err
	}
	b = binary.NativeEndian.AppendUint64(nil, uint64(word))
	for _, at := range []int64{one, many} {
		if _, err := f.WriteAt(b, at); err != nil {
			return err
		}
	}
	return nil
}

// While a channel is open, it says how many events it has dropped.
func TestChannelCountsWhatItDropped(t *testing.T) {
	for _, many := range []bool{false, true} {
		c := openTest(t, many, Options{Handler: "id", Policy: "drop", Buffer: "64KiB"})
		room := len(c.ring.Shards) * 4096
		for id := range uint64(room + 100) {
			c.Log(id)
		}
		kept := 0
		for _, shard := range readRecords(t, c) {
			kept += len(shard)
		}
		if got := int(c.Dropped()); got < 100 || kept+got != room+100 {
			t.Errorf("many %t: %d dropped and %d kept of %d", many, got, kept, room+100)
		}
		c.Close()
		if got := c.Dropped() + (*Channel)(nil).Dropped() + noopChannel().Dropped(); got > 0 {
			t.Errorf("many %t: %d dropped of channels that are not open", many, got)
		}
	}
}
