package logstore

import (
	"bytes"
	"errors"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/cloudprofiler/cloudprofiler/internal/seed"
)

// readers are all readers of the package, as functions from a file's bytes to its rows and its
// damage. Each test of readers tests all of them.
var readers = map[string]func(t testing.TB, data []byte) (map[rowKey]rowValue, []error, error){
	"stream": func(t testing.TB, data []byte) (map[rowKey]rowValue, []error, error) {
		r, err := NewReader(bytes.NewReader(data), "log")
		if err != nil {
			return nil, nil, err
		}
		return drainBlocks(r.Next)
	},
	"byte by byte": func(t testing.TB, data []byte) (map[rowKey]rowValue, []error, error) {
		r, err := NewReader(oneByteReader{bytes.NewReader(data)}, "log")
		if err != nil {
			return nil, nil, err
		}
		return drainBlocks(r.Next)
	},
	"file": func(t testing.TB, data []byte) (map[rowKey]rowValue, []error, error) {
		f, err := NewFile(bytes.NewReader(data), int64(len(data)), "log")
		if err != nil {
			return nil, nil, err
		}
		return drainBlocks(f.All().Next)
	},
	"segments": func(t testing.TB, data []byte) (map[rowKey]rowValue, []error, error) {
		path := filepath.Join(t.TempDir(),
			SegmentName(mustName(t, "map#3/start"), sampleIncarnation, 0))
		if err := os.WriteFile(path, data, 0o600); err != nil {
			t.Fatal(err)
		}
		s, ok := ParseSegment(path)
		if !ok {
			t.Fatalf("%q is no segment", path)
		}
		r := ReadLog([]Segment{s})
		defer r.Close()
		rows, damage, err := drainBlocks(r.Next)
		if report := r.Report(); err == nil && report.Blocks == 0 && len(damage) == 1 {
			err = damage[0] // damage of the header
		}
		return rows, damage, err
	},
	"salvage": func(t testing.TB, data []byte) (map[rowKey]rowValue, []error, error) {
		path := filepath.Join(t.TempDir(), "salvaged")
		report, err := Salvage(bytes.NewReader(data), "log", path, sampleHeader(t))
		if err != nil {
			if _, stat := os.Stat(path); stat == nil {
				t.Errorf("a file remains after %v", err)
			}
			return nil, nil, err
		}
		f, err := OpenFile(path)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		if !f.sealed {
			t.Error("what was salvaged is not sealed")
		}
		rows, again, err := drainBlocks(f.All().Next)
		if err != nil || len(again) > 0 {
			t.Fatalf("what was salvaged has damage %v, error %v", again, err)
		}
		// In the salvaged log, drops account for all missing rows that are not drops themselves.
		checked := checkFile(t, path)
		for _, a := range checked.Rows {
			if len(a.Missing) > 0 && a.Kind != Drops {
				t.Errorf("what was salvaged leaves %v without account", a.String())
			}
		}
		// Leave out the drops that Salvage added, because they are not rows of the old log.
		for key, value := range rows {
			if key.kind == Drops && value[1] == uint64(Damaged) {
				delete(rows, key)
			}
		}
		var damage []error
		for _, d := range report.Damage {
			damage = append(damage, d)
		}
		return rows, damage, nil
	},
	"resume": func(t testing.TB, data []byte) (map[rowKey]rowValue, []error, error) {
		path := filepath.Join(t.TempDir(), "log")
		if err := os.WriteFile(path, data, 0o600); err != nil {
			t.Fatal(err)
		}
		w, err := Resume(nil, path)
		switch {
		case errors.Is(err, ErrSealed): // a sealed file is read without Resume
		case err != nil:
			return nil, nil, err
		default:
			if err := w.Seal(); err != nil {
				t.Fatal(err)
			}
		}
		f, err := OpenFile(path)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		return drainBlocks(f.All().Next)
	},
}

type oneByteReader struct{ r io.Reader }

func (o oneByteReader) Read(b []byte) (int, error) { return o.r.Read(b[:min(len(b), 1)]) }

func checkFile(t testing.TB, path string) Report {
	t.Helper()
	file, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	report, err := Check(file, path)
	if err != nil {
		t.Fatal(err)
	}
	return report
}

func drainBlocks(next func() (*Block, error)) (map[rowKey]rowValue, []error, error) {
	rows := make(map[rowKey]rowValue)
	var damage []error
	for {
		b, err := next()
		var corrupt *CorruptionError
		switch {
		case err == io.EOF:
			return rows, damage, nil
		case errors.As(err, &corrupt):
			damage = append(damage, err)
		case err != nil:
			return rows, damage, err
		default:
			if err := rowsOf(b, rows); err != nil {
				return rows, damage, err
			}
		}
	}
}

// span is the place of a block in a file.
type span struct{ from, to int }

// blockSpans returns the places of the header, of each block of rows, and of the rest.
func blockSpans(t testing.TB, data []byte) (header span, blocks []span, tail span) {
	t.Helper()
	f, err := NewFile(bytes.NewReader(data), int64(len(data)), "log")
	if err != nil {
		t.Fatal(err)
	}
	header = span{0, int(f.header.headerLength)}
	at := header.to
	for _, e := range f.entries {
		blocks = append(blocks, span{int(e.Offset), int(e.Offset + e.Length)})
		at = int(e.Offset + e.Length)
	}
	return header, blocks, span{at, len(data)}
}

// survivingRows returns the rows of all blocks except those in lost.
func survivingRows(t testing.TB, blocks []*Block, lost ...int) map[rowKey]rowValue {
	t.Helper()
	var left []*Block
	for i, b := range blocks {
		if !slices.Contains(lost, i) {
			left = append(left, b)
		}
	}
	return rowsOfAll(t, left)
}

func diffRows(t testing.TB, got, want map[rowKey]rowValue) {
	t.Helper()
	missing, invented := 0, 0
	for key, value := range want {
		if got[key] != value {
			missing++
			if missing < 4 {
				t.Errorf("row %v is %v, want %v", key, got[key], value)
			}
		}
	}
	for key, value := range got {
		if want[key] != value {
			invented++
			if invented < 4 {
				t.Errorf("row %v is %v, which was not written or should be lost", key, value)
			}
		}
	}
	if missing+invented > 0 {
		t.Errorf("%d rows missing, %d not to be there", missing, invented)
	}
}

// Readers refuse former formats, and the error names the format.
func TestFormatsThatAreGone(t *testing.T) {
	data := writeLog(t, sampleHeader(t), sampleBlocks(), true)
	for _, format := range []string{"plain", "ascii"} {
		_, err := NewReader(bytes.NewReader(withHeader(data, "compressed", format)), "log")
		if !errors.Is(err, ErrFormat) || errors.Is(err, ErrHeader) ||
			!strings.Contains(err.Error(), `file has format "`+format+`"`) ||
			!strings.Contains(err.Error(), "use the cprof that wrote it") {
			t.Errorf("%s: %v", format, err)
		}
	}
}

// A header that no writer writes is refused, even if its checksum matches.
func TestSenselessBlockHeadersAreRefused(t *testing.T) {
	good := blockHeader{kind: Events, coding: payloadPlain, rows: 3, length: 48}
	parses := func(h blockHeader) bool {
		b := make([]byte, blockHeaderSize)
		h.put(b)
		_, ok := parseBlockHeader(b)
		return ok
	}
	if !parses(good) {
		t.Fatal("a good one is refused")
	}
	for name, spoil := range map[string]func(h *blockHeader){
		"no kind":         func(h *blockHeader) { h.kind = 0 },
		"unknown kind":    func(h *blockHeader) { h.kind = 9 },
		"kind beyond all": func(h *blockHeader) { h.kind = 200 },
		"reserved coding": func(h *blockHeader) { h.coding = 2 },
		"unknown coding":  func(h *blockHeader) { h.coding = 3 },
		"no rows":         func(h *blockHeader) { h.rows = 0 },
		"too many rows": func(h *blockHeader) {
			h.rows, h.length = MaxRows+1, 16*(MaxRows+1)
		},
		"no bytes":                func(h *blockHeader) { h.length = 0 },
		"plain and short":         func(h *blockHeader) { h.length = 47 },
		"plain and long":          func(h *blockHeader) { h.length = 49 },
		"compressed, not smaller": func(h *blockHeader) { h.coding = payloadCompressed },
		"hurried, not smaller":    func(h *blockHeader) { h.coding = payloadHurried },
		"of an unknown coding":    func(h *blockHeader) { h.coding = 2 },
		"sequence that wraps":     func(h *blockHeader) { h.first = 1<<64 - 2 },
	} {
		h := good
		if spoil(&h); parses(h) {
			t.Errorf("%s: it is taken", name)
		}
	}
}

// A segment's rows begin where its header says. If a block begins before that place, readers skip
// its rows before the place.
func TestRowsBeforeTheSegmentAreNotReadAgain(t *testing.T) {
	h := sampleHeader(t)
	h.Segment, h.Continues = 1, []Place{{Events, 0, 100}}
	e := new(encoder)
	old := &Block{Incarnation: sampleIncarnation, First: 90, Events: make([]Event, 5)}
	across := &Block{Incarnation: sampleIncarnation, First: 98, Events: make([]Event, 5)}
	data := e.appendBlock(appendHeader(nil, &h), old, 1)
	data = e.appendBlock(data, across, 1)
	r, err := NewReader(bytes.NewReader(data), "log")
	if err != nil {
		t.Fatal(err)
	}
	b, err := r.Next()
	if err != nil || b.First != 100 || len(b.Events) != 3 {
		t.Fatalf("block %+v, error %v", b, err)
	}
	if report := r.Report(); report.Duplicates != 1 || report.Overlaps != 1 || !report.Whole() ||
		report.Rows[0].Rows != 3 {
		t.Errorf("%+v", report)
	}
}

// If one bit of any byte is flipped, all readers return the rows of the other blocks. They return
// no row that was never written.
func TestAnyFlippedBit(t *testing.T) {
	blocks := sampleBlocks()
	whole := writeLog(t, sampleHeader(t), blocks, true)
	header, places, _ := blockSpans(t, whole)
	step := 5 // 5 and 8 have no common factor, so the test flips every bit position
	step *= seed.Share()
	if testing.Short() {
		step *= 7
	}
	for at := 0; at < len(whole); at += step {
		data := slices.Clone(whole)
		data[at] ^= 1 << (at % 8)
		var lost []int
		for i, s := range places {
			if at >= s.from && at < s.to {
				lost = append(lost, i)
			}
		}
		want := survivingRows(t, blocks, lost...)
		for _, name := range []string{"stream", "file"} {
			rows, _, err := readers[name](t, data)
			if at < header.to {
				if err == nil {
					t.Fatalf("%s: bit at %d of the header is not noticed", name, at)
				}
				continue
			}
			if err != nil {
				t.Fatalf("%s: bit at %d: %v", name, at, err)
			}
			if !maps.Equal(rows, want) {
				t.Errorf("%s: bit at %d", name, at)
				diffRows(t, rows, want)
				return
			}
		}
	}
}
