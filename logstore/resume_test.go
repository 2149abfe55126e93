package logstore

import (
	"bytes"
	"io/fs"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/cloudprofiler/cloudprofiler/internal/seed"
)

// countingDisk counts the bytes that are read through it.
type countingDisk struct {
	OS
	read int64
}

type countingFile struct {
	WriterFile
	disk *countingDisk
}

func (d *countingDisk) OpenFile(path string, flag int, mode fs.FileMode) (WriterFile, error) {
	f, err := d.OS.OpenFile(path, flag, mode)
	if err != nil {
		return nil, err
	}
	return countingFile{f, d}, nil
}

func (f countingFile) ReadAt(b []byte, offset int64) (int, error) {
	n, err := f.WriterFile.ReadAt(b, offset)
	f.disk.read += int64(n)
	return n, err
}

// Programs wait for Resume. So it reads only the headers and the last few payloads, wherever a
// writer died.
func TestResumeReadsLittle(t *testing.T) {
	const blocks, shards, rows = 300, 3, 4096
	path := filepath.Join(t.TempDir(), "log")
	w, err := Create(nil, path, sampleHeader(t))
	if err != nil {
		t.Fatal(err)
	}
	drop := []Drop{{Of: uint64(Events), Reason: uint64(RingFull), Count: 1}}
	for i := range uint64(blocks) {
		for _, b := range []Block{
			{First: i / shards * rows, Shard: int(i % shards), Events: make([]Event, rows)},
			{First: i, Drops: drop},
		} {
			b.Incarnation, b.Plain = sampleIncarnation, true
			if err := w.Append(&b); err != nil {
				t.Fatal(err)
			}
		}
	}
	const payload = rows * 16
	end := w.Size()
	last := int64(w.index[len(w.index)-2].Offset) // the offset of the last block of events
	w.Close()
	const window = 256 << 10 // number of bytes that a search reads at once
	limit := int64(4096 + 2*blocks*(blockHeaderSize+frameLimit) + (shards+2)*payload + window)
	if limit > end/15 {
		t.Fatalf("%d of %d bytes are no little", limit, end)
	}
	// The last block is torn. The bytes after it are the rest of an older, longer block, which a
	// writer could not remove. So the file is long enough to contain the whole torn block.
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	overOlder := slices.Concat(data[:last+payload/2], bytes.Repeat([]byte("older"), payload))
	for name, c := range map[string]struct {
		data []byte
		size int64
	}{
		"whole":               {data, end},
		"torn payload":        {data[:last+payload/2], last},
		"torn header":         {data[:last+9], last},
		"torn over older":     {overOlder, last},
		"whole, older behind": {append(data[:end:end], overOlder[last:]...), end},
	} {
		if err := os.WriteFile(path, c.data, 0o600); err != nil {
			t.Fatal(err)
		}
		disk := &countingDisk{}
		w, err := Resume(disk, path)
		if err != nil {
			t.Fatal(err)
		}
		if disk.read > limit {
			t.Errorf("%s: read %d of %d bytes, want at most %d", name, disk.read, len(c.data),
				limit)
		}
		if w.Size() != c.size {
			t.Errorf("%s: goes on at %d, want %d", name, w.Size(), c.size)
		}
		w.Close()
	}
}

// nextOf reads a whole log and returns where it continues.
func nextOf(t *testing.T, data []byte) map[rowStream]uint64 {
	r, err := NewReader(bytes.NewReader(data), "log")
	if err != nil {
		t.Fatal(err)
	}
	whole := streamTracker{}
	whole.skipTo(r.header.Continues)
	for {
		b, err := r.Next()
		if b != nil {
			whole.noteWritten(b.Kind(), b.Shard, b.First+uint64(b.Len()), b.Drops)
		} else if _, damaged := err.(*CorruptionError); !damaged {
			return whole.nexts()
		}
	}
}

func (t streamTracker) nexts() map[rowStream]uint64 {
	all := map[rowStream]uint64{}
	for key, s := range t {
		if s.next > 0 {
			all[key] = s.next
		}
	}
	return all
}

// Resume reads little, but reaches the same result as reading everything. In this test, writers die
// after any byte, and older bytes may follow that byte. The files are also damaged in other ways.
func TestResumeKnowsWhatReadingAllDoes(t *testing.T) {
	rng := seed.Random(t)
	path := filepath.Join(t.TempDir(), "log")
	for range max(100, 600/seed.Share()) {
		blocks := randomBlocks(rng)
		data := writeLog(t, sampleHeader(t), blocks, rng.IntN(8) == 0)
		header, places, _ := blockSpans(t, data)
		damaged := rng.IntN(2) == 0
		if rng.IntN(3) > 0 {
			whole := data
			data = slices.Clone(data[:header.to+rng.IntN(len(data)-header.to+1)])
			// After the torn block comes a part of an older, longer block that a writer could not
			// remove. A writer never leaves a whole block there: readers would return it, as if it
			// had been written after the torn block.
			if rng.IntN(2) == 0 {
				left := places[rng.IntN(len(places))]
				data = append(data, whole[left.from:left.from+rng.IntN(left.to-left.from)]...)
			}
		}
		for range rng.IntN(3) {
			if damaged && len(data) > header.to {
				data[header.to+rng.IntN(len(data)-header.to)] ^= byte(1 + rng.IntN(255))
			}
		}
		want := nextOf(t, data)
		if err := os.WriteFile(path, data, 0o600); err != nil {
			t.Fatal(err)
		}
		report, err := Check(bytes.NewReader(data), "log")
		if err != nil {
			t.Fatal(err)
		}
		w, err := Resume(nil, path)
		if report.Sealed {
			if err == nil {
				t.Fatal("a sealed log was resumed")
			}
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		if got := w.tracker.nexts(); !maps.Equal(got, want) {
			t.Fatalf("goes on at %v, reading all at %v", got, want)
		}
		if after, err := os.ReadFile(path); err != nil || !bytes.Equal(after, data[:w.Size()]) {
			t.Fatalf("the file is not what it was up to byte %d, error %v", w.Size(), err)
		}
		next := &Block{
			Incarnation: sampleIncarnation, First: w.Next(Events, 0), Events: []Event{{1, 2}},
		}
		if err := w.Append(next); err != nil {
			t.Fatal(err)
		}
		if err := w.Seal(); err != nil {
			t.Fatal(err)
		}
		after := checkFile(t, path)
		if !damaged && !after.Whole() {
			t.Fatalf("%+v", after)
		}
	}
}

// randomBlocks returns blocks that a drainer could have written.
func randomBlocks(rng *rand.Rand) []*Block {
	var blocks []*Block
	t := streamTracker{}
	for range 1 + rng.IntN(25) {
		b := &Block{Incarnation: sampleIncarnation, Shard: rng.IntN(3), Plain: rng.IntN(2) == 0}
		switch rng.IntN(4) {
		case 0, 1:
			for range 1 + rng.IntN(50) {
				b.Events = append(b.Events, Event{Counter: rng.Uint64() >> 30, ID: rng.Uint64()})
			}
		case 2:
			reasons := []Reason{RingFull, NeverWritten, NotStored, OverRate}
			b.Drops = []Drop{
				{
					Of: uint64(Events), Reason: uint64(reasons[rng.IntN(len(reasons))]),
					At: t.of(Events, b.Shard).next, Count: 1 + rng.Uint64N(9),
				},
			}
		case 3:
			b.Samples = []Sample{{Counter: rng.Uint64(), Count: rng.Uint64()}}
		}
		b.First = t.of(b.Kind(), b.Shard).next
		t.noteWritten(b.Kind(), b.Shard, b.First+uint64(b.Len()), b.Drops)
		blocks = append(blocks, b)
	}
	return blocks
}
