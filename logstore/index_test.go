package logstore

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/cloudprofiler/cloudprofiler/internal/seed"
)

// smallBlocks appends blocks of one row each, and returns their rows. A channel that many cores
// share makes such blocks.
func smallBlocks(t *testing.T, append func(*Block) error, from, to int) map[rowKey]rowValue {
	t.Helper()
	rows := map[rowKey]rowValue{}
	for i := from; i < to; i++ {
		b := &Block{Incarnation: sampleIncarnation, Shard: i % 64, First: uint64(i / 64)}
		b.Events = []Event{{uint64(i), uint64(i)}}
		if err := append(b); err != nil {
			t.Fatal(err)
		}
		if err := rowsOf(b, rows); err != nil {
			t.Fatal(err)
		}
	}
	return rows
}

// A segment does not exceed its limit, however small its blocks are. The part of the index that the
// writer still has in memory is limited, too.
func TestSegmentsAreLimitedByBytes(t *testing.T) {
	const blocks = 3*indexRows + 17
	dir := t.TempDir()
	l, err := OpenLog(nil, dir, sampleHeader(t), 0)
	if err != nil {
		t.Fatal(err)
	}
	most := 0
	want := smallBlocks(t, func(b *Block) error {
		err := l.Append(b)
		most = max(most, len(l.writer.index))
		return err
	}, 0, blocks)
	if err := l.Seal(); err != nil {
		t.Fatal(err)
	}
	segments, err := Segments(dir)
	if err != nil || len(segments) != 1 {
		t.Fatalf("%d segments, want 1, error %v", len(segments), err)
	}
	if most > indexRows {
		t.Errorf("%d rows of the index waited, at most %d should", most, indexRows)
	}
	r := ReadLog(segments)
	got, damage, err := drainBlocks(r.Next)
	if err != nil || len(damage) > 0 || !ptr(r.Report()).Whole() {
		t.Fatalf("damage %v, error %v", damage, err)
	}
	diffRows(t, got, want)
	f, err := OpenFile(segments[0].Path)
	if err != nil || !f.sealed || f.indexBy != byEnd || f.Blocks() != blocks {
		t.Fatalf("%d blocks, index of kind %d, error %v", f.Blocks(), f.indexBy, err)
	}
	if got, damage, err = drainBlocks(f.All().Next); err != nil || len(damage) > 0 {
		t.Fatalf("damage %v, error %v", damage, err)
	}
	f.Close()
	diffRows(t, got, want)
}

// A resumed file's index lists all blocks, wherever the earlier writer died, even in the middle of
// an index block.
func TestIndexAfterDeath(t *testing.T) {
	rng := seed.Random(t)
	const blocks, more = 2*indexRows + 100, 50
	path := filepath.Join(t.TempDir(), "log")
	w, err := Create(nil, path, sampleHeader(t))
	if err != nil {
		t.Fatal(err)
	}
	want := smallBlocks(t, w.Append, 0, blocks)
	last := w.last
	w.Close()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for _, cut := range []int{
		len(data), int(last.Offset), int(last.Offset + last.Length),
		int(last.Offset) + 1 + rng.IntN(int(last.Length)-1),
		int(last.Offset) + rng.IntN(len(data)-int(last.Offset)),
	} {
		if err := os.WriteFile(path, data[:cut], 0o600); err != nil {
			t.Fatal(err)
		}
		w, err := Resume(nil, path)
		if err != nil {
			t.Fatal(err)
		}
		n := 0 // number of blocks in the file
		for shard := range 64 {
			n += int(w.Next(Events, shard))
		}
		all := smallBlocks(t, w.Append, n, n+more)
		for key, value := range want {
			if int(key.at)*64+key.shard < n {
				all[key] = value
			}
		}
		if err := w.Seal(); err != nil {
			t.Fatal(err)
		}
		after, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		report, err := Check(bytes.NewReader(after), path)
		if err != nil || !report.Whole() || !report.Sealed {
			t.Errorf("cut at %d: %+v, error %v", cut, report, err)
		}
		f, err := NewFile(bytes.NewReader(after), int64(len(after)), path)
		if err != nil || f.indexBy != byEnd || f.Blocks() != n+more {
			t.Fatalf("cut at %d: %d blocks, want %d, index of kind %d, error %v",
				cut, f.Blocks(), n+more, f.indexBy, err)
		}
		got, damage, err := drainBlocks(f.All().Next)
		if err != nil || len(damage) > 0 {
			t.Fatalf("cut at %d: damage %v, error %v", cut, damage, err)
		}
		diffRows(t, got, all)
	}
}

// If a block of the index is damaged, readers search the file and lose no row.
func TestDamagedIndexIsSearchedFor(t *testing.T) {
	path := filepath.Join(t.TempDir(), "log")
	w, err := Create(nil, path, sampleHeader(t))
	if err != nil {
		t.Fatal(err)
	}
	var indexes []indexEntry
	want := smallBlocks(t, func(b *Block) error {
		err := w.Append(b)
		if w.last.Count > 0 && !slices.Contains(indexes, w.last) {
			indexes = append(indexes, w.last)
		}
		return err
	}, 0, 2*indexRows+10)
	if err := w.Seal(); err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(path)
	if err != nil || len(indexes) != 2 {
		t.Fatal(indexes, err)
	}
	for _, at := range indexes {
		damaged := slices.Clone(data)
		damaged[at.Offset+at.Length/2] ^= 1
		for _, name := range []string{"stream", "file"} {
			got, damage, err := readers[name](t, damaged)
			if err != nil || name == "stream" && len(damage) == 0 {
				t.Fatalf("%s: damage %v, error %v", name, damage, err)
			}
			diffRows(t, got, want)
		}
	}
}

// If an index block lists itself or a later block, readers do not believe the index. They search
// the file instead.
func TestIndexInACircle(t *testing.T) {
	header := appendHeader(nil, ptr(sampleHeader(t)))
	for name, point := range map[string]func(at, length uint64) indexEntry{
		"itself": func(at, n uint64) indexEntry { return indexEntry{Offset: at, Length: n} },
		"behind": func(at, n uint64) indexEntry { return indexEntry{Offset: at + 1, Length: n} },
		"wraps": func(at, n uint64) indexEntry {
			return indexEntry{Offset: 1<<64 - 64, Length: 128}
		},
		"nothing": func(at, n uint64) indexEntry { return indexEntry{Offset: at} },
	} {
		at := uint64(len(header))
		entry := point(at, blockHeaderSize+64)
		entry.Kind, entry.Count = uint64(index), 1
		b := Block{Incarnation: sampleIncarnation, Plain: true, index: []indexEntry{entry}}
		data := new(encoder).appendBlock(slices.Clone(header), &b, 1)
		data = (&endFrame{offset: at, rows: 1 << 40, then: Ended}).append(data)
		f, err := NewFile(bytes.NewReader(data), int64(len(data)), "log")
		if err != nil || f.indexBy == byEnd || f.Blocks() != 0 {
			t.Errorf("%s: %+v, error %v", name, f, err)
		}
	}
}
