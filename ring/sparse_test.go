package ring

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/cloudprofiler/cloudprofiler/channel"
)

// writeSparseRing writes a ring file into shared memory. It writes the header and the shards'
// pages, but not the last bytes of these pages: the argument hole says how many bytes it leaves
// out. It writes no records.
func writeSparseRing(t *testing.T, shards int, records uint64, hole int) (path string) {
	t.Helper()
	dir, err := os.MkdirTemp("/dev/shm", "cloudprofiler-test-")
	must(t, err)
	t.Cleanup(func() { os.RemoveAll(dir) })
	p := newRing(t)
	head := make([]byte, recordsOffset(shards)-hole)
	copy(head, unsafe.Slice((*byte)(unsafe.Pointer(p.header)), pageBytes))
	h := (*header)(unsafe.Pointer(unsafe.SliceData(head)))
	h.identity.shards, h.identity.records = uint32(shards), records
	if shards > 1 {
		h.identity.manyWriters, h.identity.stamp = 1, uint8(channel.Ordered)
	}
	h.identity.fileBytes = uint64(fileBytes(shards, records))
	h.identity.checksum = h.identity.sum()
	for i := 0; shardOffset(i) < len(head); i++ {
		(*shard)(unsafe.Pointer(&head[shardOffset(i)])).producer.tail = records
	}
	path = filepath.Join(dir, filepath.Base(p.Path))
	writeFile(t, path, head)
	must(t, os.Truncate(path, int64(h.identity.fileBytes)))
	return path
}

func blocks(t *testing.T, path string) int64 {
	t.Helper()
	var st unix.Stat_t
	must(t, unix.Stat(path, &st))
	return st.Blocks
}

// A hostile program makes a ring of gigabytes without allocating its memory, or frees the memory
// later. A drainer that reads the ring does not allocate the memory.
func TestReadingAHoleTakesNoMemory(t *testing.T) {
	for _, shards := range []int{1, 4} {
		const records = 1 << 20
		path := writeSparseRing(t, shards, records, 0)
		before := blocks(t, path)
		c := drain(t, path)
		into := make([]Record, records)
		for i := range shards {
			_, n, unfinished, err := c.Copy(i, 0, into)
			if shards == 1 && (n != records || unfinished) ||
				shards > 1 && (n != 0 || !unfinished) || err != nil {
				t.Errorf("%d shards: %d records, unfinished %v, %v", shards, n, unfinished, err)
			}
			if n, err := c.Unwritten(i, 0, 1, records); shards > 1 && (n != records || err != nil) {
				t.Errorf("%d records were never written, %v, want %d", n, err, records)
			}
		}
		if after := blocks(t, path); after != before {
			t.Errorf("%d shards: reading took %d bytes", shards, (after-before)*512)
		}
	}
}

// OpenConsumer refuses a header with a hole, because a load from the hole would allocate memory.
func TestHeaderWithAHoleIsRefused(t *testing.T) {
	for shards, hole := range map[int]int{1: pageBytes, 64: 63 * pageBytes} {
		path := writeSparseRing(t, shards, 1024, hole)
		before := blocks(t, path)
		_, err := OpenConsumer(path)
		if !errors.Is(err, ErrDamaged) || !strings.Contains(err.Error(), "hole at") {
			t.Errorf("%d shards: %v", shards, err)
		}
		if after := blocks(t, path); after != before {
			t.Errorf("%d shards: the open took %d bytes", shards, (after-before)*512)
		}
	}
}

func TestUnwritten(t *testing.T) {
	p := newShards(t, 1, 1<<14)
	s, c := &p.Shards[0], drain(t, p.Path)
	finish := func(seq uint64) {
		r := (*Record)(unsafe.Add(s.Records, seq%(1<<14)*RecordBytes))
		*r = Record{Counter: s.Finished(1, seq), ID: seq}
	}
	finish(0)
	finish(10_000)
	*s.Tail = 12_000
	for _, tc := range []struct{ from, step, most, want uint64 }{
		{0, 1, 100, 0}, {1, 1, 100, 100}, {1, 1, 1 << 40, 9_999}, {9_999, 1, 5, 1},
		{10_001, 1, 1 << 40, 1_999},
		{1, 2, 101, 100}, {2, 2, 1 << 40, 9_998}, {12_000, 1, 1, 0}, {10_001, 2, 1 << 40, 1_998},
	} {
		if n, err := c.Unwritten(0, tc.from, tc.step, tc.most); n != tc.want || err != nil {
			t.Errorf("from %d by %d, at most %d: %d, %v, want %d", tc.from, tc.step, tc.most, n,
				err, tc.want)
		}
	}
}
