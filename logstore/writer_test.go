package logstore

import (
	"bytes"
	"errors"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/cloudprofiler/cloudprofiler/internal/seed"
)

func TestEveryKindComesBack(t *testing.T) {
	blocks := sampleBlocks()
	for _, seal := range []bool{false, true} {
		data := writeLog(t, sampleHeader(t), blocks, seal)
		for _, name := range slices.Sorted(maps.Keys(readers)) {
			rows, damage, err := readers[name](t, data)
			if err != nil || len(damage) > 0 {
				t.Fatalf("%s: error %v, damage %v", name, err, damage)
			}
			diffRows(t, rows, rowsOfAll(t, blocks))
		}
		report, err := Check(bytes.NewReader(data), "log")
		if err != nil || !report.Whole() || report.Sealed != seal ||
			report.Blocks != len(blocks) {
			t.Errorf("sealed %v: report %+v, error %v", seal, report, err)
		}
	}
}

func TestEmptyLogIsALog(t *testing.T) {
	for _, seal := range []bool{false, true} {
		data := writeLog(t, sampleHeader(t), nil, seal)
		for name, read := range readers {
			// From a log without rows, salvage and resume make another log without rows.
			if rows, damage, err := read(t, data); len(rows) != 0 || len(damage) != 0 ||
				err != nil {
				t.Errorf("%s: rows %v, damage %v, error %v", name, rows, damage, err)
			}
		}
	}
}

func TestHeaderComesBack(t *testing.T) {
	want := sampleHeader(t)
	want.Segment, want.Part, want.Rewritten = 3, 2, true
	want.Previous = Fingerprint{1 << 40, 5, 1<<32 - 1}
	want.Continues = []Place{{Events, 0, 17}, {Drops, 65535, 1<<64 - 1}}
	for shard := range 300 { // make the header longer than a reader's first read
		want.Continues = append(want.Continues, Place{Samples, shard, uint64(shard)})
	}
	data := writeLog(t, want, nil, false)
	r, err := NewReader(bytes.NewReader(data), "log")
	if err != nil {
		t.Fatal(err)
	}
	f, err := NewFile(bytes.NewReader(data), int64(len(data)), "log")
	if err != nil || !sameHeader(f.Header(), want) {
		t.Errorf("file's header %+v, error %v", f.Header(), err)
	}
	got := r.Header()
	if !slices.Equal(got.Continues, want.Continues) {
		t.Errorf("continues %v, want %v", got.Continues, want.Continues)
	}
	got.Continues, want.Continues, got.headerLength = nil, nil, 0
	if !sameHeader(got, want) {
		t.Errorf("header %+v, want %+v", got, want)
	}
}

func sameHeader(a, b Header) bool {
	return bytes.Equal(appendHeader(nil, &a), appendHeader(nil, &b)) && a.Node == b.Node &&
		a.Epoch == b.Epoch && a.Channel == b.Channel &&
		a.Settings == b.Settings && a.Incarnation == b.Incarnation && a.UTCLo_ns == b.UTCLo_ns &&
		a.UTCHi_ns == b.UTCHi_ns && a.Counter == b.Counter
}

func TestHeaderThatCannotBeReadBackIsRefused(t *testing.T) {
	for name, spoil := range map[string]func(h *Header){
		"channel":      func(h *Header) { h.Channel.Point = "a b" },
		"settings":     func(h *Header) { h.Settings.B = 0 },
		"utc":          func(h *Header) { h.UTCLo_ns = h.UTCHi_ns + 1 },
		"segment":      func(h *Header) { h.Segment = -1 },
		"part":         func(h *Header) { h.Part = 1 },
		"policy":       func(h *Header) { h.Policy = 9 },
		"node's name":  func(h *Header) { h.Node = string(make([]byte, headerLimit)) },
		"node number":  func(h *Header) { h.NodeNumber = 1 << 20 },
		"stamp":        func(h *Header) { h.Stamp = 9 },
		"process's id": func(h *Header) { h.ProcessID = -4 },
	} {
		h := sampleHeader(t)
		spoil(&h)
		path := filepath.Join(t.TempDir(), "log")
		if w, err := Create(nil, path, h); err == nil {
			w.Close()
			t.Errorf("%s: a bad one is accepted", name)
		}
		if _, err := os.Stat(path); err == nil {
			t.Errorf("%s: a file remains", name)
		}
	}
}

func TestAppendRefusesWhatNoFileCanHold(t *testing.T) {
	w, err := Create(nil, filepath.Join(t.TempDir(), "log"), sampleHeader(t))
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	good := Block{Incarnation: sampleIncarnation, First: 10, Events: make([]Event, 5)}
	if err := w.Append(&good); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		block Block
		want  error
	}{
		"no rows": {Block{Incarnation: sampleIncarnation, First: 15}, ErrBlock},
		"two kinds": {Block{Incarnation: sampleIncarnation, First: 15,
			Events: make([]Event, 1), Links: make([]Link, 1)}, ErrBlock},
		"too many rows": {Block{Incarnation: sampleIncarnation, First: 15,
			Events: make([]Event, MaxRows+1)}, ErrBlock},
		"shard": {Block{Incarnation: sampleIncarnation, First: 15, Shard: 1 << 16,
			Events: make([]Event, 1)}, ErrBlock},
		"sequence that wraps": {Block{Incarnation: sampleIncarnation, First: 1<<64 - 1,
			Events: make([]Event, 2)}, ErrBlock},
		"sequence again": {Block{Incarnation: sampleIncarnation, First: 14,
			Events: make([]Event, 5)}, ErrSequence},
		"other ring": {Block{Incarnation: Incarnation{7}, First: 15,
			Events: make([]Event, 1)}, ErrForeign},
	} {
		size := w.Size()
		if err := w.Append(&c.block); !errors.Is(err, c.want) {
			t.Errorf("%s: error %v, want %v", name, err, c.want)
		}
		if w.Size() != size || w.Next(Events, 0) != 15 {
			t.Errorf("%s: something was written", name)
		}
	}
}

// The disk becomes full at every byte of a block in turn, and then has space again. The log
// contains every block exactly once, and nothing else.
func TestDiskFullAndSpaceAgain(t *testing.T) {
	blocks := sampleBlocks()
	size := len(writeLog(t, sampleHeader(t), blocks[:3], false)) -
		len(appendHeader(nil, ptr(sampleHeader(t))))
	for free := 0; free < size; free += 1 + size*seed.Share()/150 {
		path := filepath.Join(t.TempDir(), "log")
		disk := &faultyDisk{free: 1 << 20}
		w, err := Create(disk, path, sampleHeader(t))
		if err != nil {
			t.Fatal(err)
		}
		disk.free = free
		refused := 0
		for _, b := range blocks[:3] {
			err := w.Append(b)
			if err == nil {
				continue
			}
			if !errors.Is(err, errDiskFull) {
				t.Fatal(err)
			}
			refused++
			if data, _ := os.ReadFile(path); int64(len(data)) != w.Size() {
				t.Fatalf("%d bytes free: %d bytes in the file, %d of whole blocks", free,
					len(data), w.Size())
			}
			disk.free = 1 << 20
			if err := w.Append(b); err != nil {
				t.Fatal(err)
			}
		}
		if refused != 1 {
			t.Fatalf("%d bytes free: refused %d times, want once", free, refused)
		}
		disk.free = free % 40
		if err := w.Seal(); !errors.Is(err, errDiskFull) {
			t.Fatalf("seal without space: %v", err)
		}
		disk.free = 1 << 20
		if err := w.Seal(); err != nil {
			t.Fatal(err)
		}
		if report := checkFile(t, path); !report.Whole() || !report.Sealed ||
			report.Blocks != 3 {
			t.Fatalf("%d bytes free: %+v", free, report)
		}
	}
}

func ptr[T any](v T) *T { return &v }

func TestCreateWithoutSpaceLeavesNothing(t *testing.T) {
	dir := t.TempDir()
	_, err := Create(&faultyDisk{free: 50}, filepath.Join(dir, "log"), sampleHeader(t))
	if !errors.Is(err, errDiskFull) {
		t.Errorf("error %v", err)
	}
	if entries, _ := os.ReadDir(dir); len(entries) > 0 {
		t.Errorf("%v remains", entries)
	}
}

func TestCreateOverwritesNothing(t *testing.T) {
	path := filepath.Join(t.TempDir(), "log")
	os.WriteFile(path, []byte("precious"), 0o600)
	if _, err := Create(nil, path, sampleHeader(t)); !errors.Is(err, fs.ErrExist) {
		t.Errorf("error %v", err)
	}
	if data, _ := os.ReadFile(path); string(data) != "precious" {
		t.Errorf("the file is %q now", data)
	}
}

// A writer dies after any byte of a block, and the log is resumed. The log contains all confirmed
// rows once, and the block can be appended again.
func TestResumeAfterTornWrite(t *testing.T) {
	blocks := sampleBlocks()
	before := writeLog(t, sampleHeader(t), blocks[:5], false)
	after := writeLog(t, sampleHeader(t), blocks[:6], false)
	for cut := len(before); cut < len(after); cut += 13 * seed.Share() {
		path := filepath.Join(t.TempDir(), "log")
		os.WriteFile(path, after[:cut], 0o600)
		w, err := Resume(nil, path)
		if err != nil {
			t.Fatal(err)
		}
		if data, _ := os.ReadFile(path); len(data) != len(before) ||
			w.Size() != int64(len(before)) {
			t.Fatalf("cut at %d: %d bytes after resuming, %d are whole", cut, len(data),
				len(before))
		}
		if next := w.Next(Events, 0); next != 501 { // a Drop declares row 500 missing
			t.Fatalf("next is %d, want 501", next)
		}
		for _, b := range blocks[5:] {
			if err := w.Append(b); err != nil {
				t.Fatal(err)
			}
		}
		if err := w.Seal(); err != nil {
			t.Fatal(err)
		}
		data, _ := os.ReadFile(path)
		if !bytes.Equal(data, writeLog(t, sampleHeader(t), blocks, true)) {
			t.Fatalf("cut at %d: file differs from one that was written in one go", cut)
		}
	}
}

func TestResumeRefusesSealed(t *testing.T) {
	path := filepath.Join(t.TempDir(), "log")
	data := writeLog(t, sampleHeader(t), sampleBlocks(), true)
	os.WriteFile(path, data, 0o600)
	if _, err := Resume(nil, path); !errors.Is(err, ErrSealed) {
		t.Errorf("error %v", err)
	}
	if after, _ := os.ReadFile(path); !bytes.Equal(data, after) {
		t.Error("the file has changed")
	}
}

func TestFileRemovedUnderTheWriter(t *testing.T) {
	for name, remove := range map[string]func(path string) error{
		"removed": os.Remove,
		"replaced": func(path string) error {
			os.Remove(path)
			return os.WriteFile(path, make([]byte, 1<<20), 0o600)
		},
		"cut": func(path string) error { return os.Truncate(path, 100) },
	} {
		path := filepath.Join(t.TempDir(), "log")
		w, err := Create(nil, path, sampleHeader(t))
		if err != nil {
			t.Fatal(err)
		}
		b := &Block{Incarnation: sampleIncarnation, Events: make([]Event, 9)}
		if err := w.Append(b); err != nil {
			t.Fatal(err)
		}
		if err := remove(path); err != nil {
			t.Fatal(err)
		}
		b.First = 9
		if err := w.Append(b); !errors.Is(err, ErrRemoved) {
			t.Errorf("%s: error %v", name, err)
		}
		if err := w.Seal(); !errors.Is(err, ErrRemoved) {
			t.Errorf("%s: seal: error %v", name, err)
		}
		w.Close()
	}
}

func TestOverlapIsTrimmed(t *testing.T) {
	header := appendHeader(nil, ptr(sampleHeader(t)))
	e := new(encoder)
	row := func(from, to int) *Block {
		b := &Block{Incarnation: sampleIncarnation, First: uint64(from)}
		for i := from; i < to; i++ {
			b.Events = append(b.Events, Event{uint64(i), uint64(i)})
		}
		return b
	}
	data := e.appendBlock(header, row(0, 10), 1)
	data = e.appendBlock(data, row(5, 15), 1)
	data = e.appendBlock(data, row(20, 25), 1)
	want := rowsOfAll(t, []*Block{row(0, 15), row(20, 25)})
	for name, read := range readers {
		rows, damage, err := read(t, slices.Clone(data))
		if err != nil || len(damage) > 0 {
			t.Fatal(name, err, damage)
		}
		diffRows(t, rows, want)
	}
	report, _ := Check(bytes.NewReader(data), "log")
	if report.Overlaps != 1 || !slices.Equal(report.Rows[0].Missing, []Range{{15, 20}}) {
		t.Errorf("%+v", report)
	}
}

// The log has 10 rows. The drops say that rows 10 to 14 were not stored. So all rows below 15 are
// accounted for, and Check reports none of them as missing.
func TestDropsAccountForTheEnd(t *testing.T) {
	blocks := []*Block{
		{Incarnation: sampleIncarnation, Events: make([]Event, 10)},
		{
			Incarnation: sampleIncarnation,
			Drops: []Drop{
				{Of: uint64(Events), Reason: uint64(NotStored), At: 10, Count: 5},
				{Of: uint64(Events), Reason: uint64(RingFull), At: 15, Count: 7},
			},
		},
	}
	data := writeLog(t, sampleHeader(t), blocks, true)
	report, err := Check(bytes.NewReader(data), "log")
	if err != nil || !report.Whole() {
		t.Fatalf("%+v, error %v", report, err)
	}
	a := report.Rows[0]
	if a.Kind != Events || a.Rows != 10 || a.Next != 15 || a.Dropped[NotStored] != 5 ||
		a.Dropped[RingFull] != 7 {
		t.Errorf("%+v", a)
	}
	if got, want := a.String(), "events, shard 0: 10 rows, 7 ring full, 5 not stored"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}
