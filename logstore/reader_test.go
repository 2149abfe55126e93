package logstore

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/cloudprofiler/cloudprofiler/internal/seed"
)

// These are all readers of the package, as functions from a file's bytes to its rows and its
// damage. One table tests them all.
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
			err = damage[0] // of the header
		}
		return rows, damage, err
	},
	"salvage": func(t testing.TB, data []byte) (map[rowKey]rowValue, []error, error) {
		path := filepath.Join(t.TempDir(), "salvaged")
		report, err := Salvage(bytes.NewReader(data), "log", path, sampleHeader(t, Compressed))
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
		// The salvaged log accounts for what it lacks, except for drops themselves.
		checked := checkFile(t, path)
		for _, a := range checked.Rows {
			if len(a.Missing) > 0 && a.Kind != Drops {
				t.Errorf("what was salvaged leaves %v without account", a.String())
			}
		}
		// The account that Salvage adds is not a row of the old log.
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
		case errors.Is(err, ErrSealed): // as expected
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

// span says where a block lies in a file.
type span struct{ from, to int }

// spans returns where the header, the blocks of rows, and the rest lie.
func spans(t testing.TB, data []byte) (header span, blocks []span, tail span) {
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

// survivors returns the rows of all blocks but those listed.
func survivors(t testing.TB, blocks []*Block, lost ...int) map[rowKey]rowValue {
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

// Files are damaged in these named ways, and each way says which rows survive.
var corruptions = []struct {
	name     string
	unsealed bool
	damage   func(t testing.TB, format Format, data []byte) []byte
	lost     []int         // blocks whose rows do not survive
	why      error         // the damage that a reader names; nil: none
	fails    error         // the error of every reader but salvage
	salvage  error         // the error of salvage; nil: all blocks but lost survive there
	missing  map[int]Range // account of missing events, by shard
}{
	{name: "whole"},
	{name: "whole_unsealed", unsealed: true},
	{
		name: "torn_last_record", unsealed: true,
		damage: func(t testing.TB, _ Format, data []byte) []byte { return data[:len(data)-1] },
		lost:   []int{13}, why: ErrTorn, missing: map[int]Range{0: {600, 601}},
	},
	{
		name: "torn_block", unsealed: true,
		damage: func(t testing.TB, _ Format, data []byte) []byte {
			_, blocks, _ := spans(t, data)
			return data[:(blocks[5].from+blocks[5].to)/2]
		},
		lost: []int{5, 6, 7, 8, 9, 10, 11, 12, 13}, why: ErrTorn,
		missing: map[int]Range{0: {501, 600}},
	},
	{
		name: "torn_header_of_a_block", unsealed: true,
		damage: func(t testing.TB, _ Format, data []byte) []byte {
			_, blocks, _ := spans(t, data)
			return data[:blocks[5].from+20]
		},
		lost: []int{5, 6, 7, 8, 9, 10, 11, 12, 13}, why: ErrTorn,
	},
	{
		name: "torn_in_the_index",
		damage: func(t testing.TB, _ Format, data []byte) []byte {
			_, _, tail := spans(t, data)
			return data[:tail.from+(tail.to-tail.from)/2]
		},
		why: ErrTorn,
	},
	{
		name:   "torn_end",
		damage: func(t testing.TB, _ Format, data []byte) []byte { return data[:len(data)-1] },
		why:    ErrTorn,
	},
	{
		name: "bad_checksum",
		damage: func(t testing.TB, _ Format, data []byte) []byte {
			_, blocks, _ := spans(t, data)
			data[blocks[3].to-2] ^= 1
			return data
		},
		lost: []int{3}, why: ErrChecksum, missing: map[int]Range{0: {300, 500}},
	},
	{
		name: "bad_header_of_a_block",
		damage: func(t testing.TB, _ Format, data []byte) []byte {
			_, blocks, _ := spans(t, data)
			data[blocks[3].from+9] ^= 0x10
			return data
		},
		lost: []int{3}, why: ErrBytes, missing: map[int]Range{0: {300, 500}},
	},
	{
		// This header matches its checksum but says that the payload is longer than it is. Blocks
		// after it must not vanish in it.
		name: "lying_length",
		damage: func(t testing.TB, format Format, data []byte) []byte {
			_, blocks, _ := spans(t, data)
			h := headerAt(t, data[blocks[3].from:], format)
			h.length = min(h.length+200, 8*h.rows*h.kind.columns()-1)
			if format == Plain {
				h.coding = payloadCompressed
				h.length = 8*h.rows*h.kind.columns() - 8
			}
			return replaceHeader(data, blocks[3], h, format)
		},
		lost: []int{3}, why: ErrChecksum, missing: map[int]Range{0: {300, 500}},
	},
	{
		name: "lying_length_beyond_the_end",
		damage: func(t testing.TB, format Format, data []byte) []byte {
			_, blocks, _ := spans(t, data)
			h := headerAt(t, data[blocks[3].from:], format)
			h.kind, h.rows, h.length = NTPs, MaxRows, 80*MaxRows-1
			if format != Text {
				h.coding = payloadCompressed
			}
			return replaceHeader(data, blocks[3], h, format)
		},
		lost: []int{3}, why: ErrTorn, missing: map[int]Range{0: {300, 500}},
	},
	{
		name: "lying_row_count",
		damage: func(t testing.TB, format Format, data []byte) []byte {
			_, blocks, _ := spans(t, data)
			h := headerAt(t, data[blocks[3].from:], format)
			h.rows -= 10
			if format == Plain {
				h.coding = payloadCompressed
				h.rows += 20
			}
			return replaceHeader(data, blocks[3], h, format)
		},
		lost: []int{3}, why: ErrPayload,
	},
	{
		name: "wrong_version",
		damage: func(t testing.TB, _ Format, data []byte) []byte {
			end := bytes.Index(data, []byte("\n\n")) + 1
			head := data[:end-len("crc32c 12345678\n")]
			head = bytes.Replace(head, []byte("log 2 "), []byte("log 3 "), 1)
			head = fmt.Appendf(head, "crc32c %08x\n", checksum(head))
			return append(head, data[end:]...)
		},
		fails: ErrVersion, salvage: ErrVersion,
	},
	{
		name: "bad_header",
		damage: func(t testing.TB, _ Format, data []byte) []byte {
			data[40] ^= 1
			return data
		},
		fails: ErrHeader,
	},
	{
		name: "no_magic",
		damage: func(t testing.TB, _ Format, data []byte) []byte {
			copy(data, "cloudprofilest")
			return data
		},
		fails: ErrNotLog,
	},
	{
		name: "headless",
		damage: func(t testing.TB, _ Format, data []byte) []byte {
			_, blocks, _ := spans(t, data)
			return data[blocks[0].from:]
		},
		fails: ErrNotLog,
	},
	{
		name: "duplicate_block", unsealed: true,
		damage: func(t testing.TB, _ Format, data []byte) []byte {
			_, blocks, _ := spans(t, data)
			return insert(data, blocks[8].to, data[blocks[3].from:blocks[3].to])
		},
	},
	{
		name: "duplicate_block_in_a_sealed_file",
		damage: func(t testing.TB, _ Format, data []byte) []byte {
			_, blocks, _ := spans(t, data)
			return insert(data, blocks[8].to, data[blocks[3].from:blocks[3].to])
		},
	},
	{
		name: "foreign_incarnation", unsealed: true,
		damage: func(t testing.TB, format Format, data []byte) []byte {
			_, blocks, _ := spans(t, data)
			foreign := Block{
				Incarnation: Incarnation{9}, First: 1000, Events: []Event{{1, 2}, {3, 4}},
			}
			return insert(data, blocks[8].to, new(encoder).appendBlock(nil, &foreign, format, 1))
		},
		why: ErrForeign,
	},
	{
		name: "zeros_in_the_middle", unsealed: true,
		damage: func(t testing.TB, _ Format, data []byte) []byte {
			_, blocks, _ := spans(t, data)
			clear(data[blocks[3].from:blocks[4].to])
			return data
		},
		lost: []int{3, 4}, why: ErrBytes, missing: map[int]Range{0: {300, 501}},
	},
	{
		name: "zeros_behind", unsealed: true,
		damage: func(t testing.TB, _ Format, data []byte) []byte {
			return append(data, make([]byte, 5000)...)
		},
		why: ErrBytes,
	},
	{
		name: "block_cut_out",
		damage: func(t testing.TB, _ Format, data []byte) []byte {
			_, blocks, _ := spans(t, data)
			return slices.Delete(data, blocks[3].from, blocks[3].to)
		},
		lost: []int{3}, why: ErrIndex, missing: map[int]Range{0: {300, 500}},
	},
	{
		name: "last_block_cut_out", // of its stream: only the index shows it
		damage: func(t testing.TB, _ Format, data []byte) []byte {
			_, blocks, _ := spans(t, data)
			return slices.Delete(data, blocks[9].from, blocks[9].to)
		},
		lost: []int{9}, why: ErrIndex, missing: map[int]Range{5: {120, 200}},
	},
	{
		name: "blocks_change_places", unsealed: true,
		damage: func(t testing.TB, _ Format, data []byte) []byte {
			return swapBlocks(t, data, 3, 5)
		},
	},
	{
		name: "blocks_change_places_in_a_sealed_file",
		damage: func(t testing.TB, _ Format, data []byte) []byte {
			return swapBlocks(t, data, 3, 5)
		},
		why: ErrIndex,
	},
	{
		// A reader that believes the header arrives at a whole block, but has passed another one.
		name: "lying_length_that_leads_to_a_block", unsealed: true,
		damage: func(t testing.TB, format Format, data []byte) []byte {
			_, blocks, _ := spans(t, data)
			h := headerAt(t, data[blocks[3].from:], format)
			h.kind, h.rows = NTPs, 300
			if format != Text {
				h.coding = payloadCompressed
			}
			h.length = blocks[5].to - blocks[3].from -
				parseFrame(data[blocks[3].from:blocks[3].to], format).size
			return replaceHeader(data, blocks[3], h, format)
		},
		lost: []int{3}, why: ErrChecksum, missing: map[int]Range{0: {300, 500}},
	},
	{
		name: "bytes_cut_out_of_a_payload",
		damage: func(t testing.TB, _ Format, data []byte) []byte {
			_, blocks, _ := spans(t, data)
			return slices.Delete(data, blocks[3].to-50, blocks[3].to-20)
		},
		lost: []int{3}, why: ErrChecksum, missing: map[int]Range{0: {300, 500}},
	},
	{
		name: "bytes_put_in",
		damage: func(t testing.TB, _ Format, data []byte) []byte {
			_, blocks, _ := spans(t, data)
			return insert(data, blocks[3].from, []byte("what is this?\n"))
		},
		why: ErrBytes,
	},
	{
		name: "written_on_when_sealed",
		damage: func(t testing.TB, format Format, data []byte) []byte {
			_, blocks, _ := spans(t, data)
			return append(data, data[blocks[2].from:blocks[2].to]...)
		},
	},
	{name: "empty", damage: func(testing.TB, Format, []byte) []byte {
		return nil
	}, fails: ErrNotLog, salvage: ErrNotLog},
	{name: "one_byte", damage: func(_ testing.TB, _ Format, data []byte) []byte {
		return data[:1]
	}, fails: ErrNotLog, salvage: ErrNotLog},
	{name: "header_alone_torn", damage: func(_ testing.TB, _ Format, data []byte) []byte {
		return data[:100]
	}, fails: ErrHeader, salvage: ErrNotLog},
	{name: "all_zero", damage: func(_ testing.TB, _ Format, data []byte) []byte {
		clear(data)
		return data
	}, fails: ErrNotLog, salvage: ErrNotLog},
}

func swapBlocks(t testing.TB, data []byte, i, j int) []byte {
	_, blocks, _ := spans(t, data)
	a, b := blocks[i], blocks[j]
	return slices.Concat(data[:a.from], data[b.from:b.to], data[a.to:b.from], data[a.from:a.to],
		data[b.to:])
}

func headerAt(t testing.TB, data []byte, format Format) blockHeader {
	t.Helper()
	f := parseFrame(data[:min(len(data), frameLimit)], format)
	if !f.isBlock {
		t.Fatal("no block there")
	}
	return f.block
}

// replaceHeader gives the block in s another header, with a valid checksum.
func replaceHeader(data []byte, s span, h blockHeader, format Format) []byte {
	old := parseFrame(data[s.from:min(len(data), s.from+frameLimit)], format)
	var head []byte
	if format == Text {
		head = h.appendLine(nil)
	} else {
		head = make([]byte, blockHeaderSize)
		h.put(head)
	}
	// A wrong count must also match the payload's checksum.
	return append(append(slices.Clone(data[:s.from]), head...), data[s.from+old.size:]...)
}

func insert(data []byte, at int, more []byte) []byte {
	return slices.Insert(slices.Clone(data), at, slices.Clone(more)...)
}

func TestCorruption(t *testing.T) {
	blocks := sampleBlocks()
	for _, c := range corruptions {
		for _, format := range formats {
			data := writeLog(t, sampleHeader(t, format), blocks, !c.unsealed)
			if c.damage != nil {
				data = c.damage(t, format, data)
			}
			for _, name := range slices.Sorted(maps.Keys(readers)) {
				t.Run(fmt.Sprintf("%s/%s/%s", c.name, format, name), func(t *testing.T) {
					rows, damage, err := readers[name](t, slices.Clone(data))
					fails := c.fails
					if name == "salvage" {
						fails = c.salvage
					}
					if fails != nil || err != nil {
						if fails == nil || !errors.Is(err, fails) {
							t.Fatalf("error %v, want %v", err, fails)
						}
						return
					}
					diffRows(t, rows, survivors(t, blocks, c.lost...))
					// A File is read by its index, so it sees less than a stream does. So does a
					// resumed file.
					if c.why != nil && name != "file" && name != "resume" {
						isWhy := func(err error) bool { return errors.Is(err, c.why) }
						if !slices.ContainsFunc(damage, isWhy) {
							t.Errorf("damage %v, want %v", damage, c.why)
						}
					}
					if c.why == nil && c.fails == nil && len(damage) > 0 && name != "file" {
						t.Errorf("damage %v, want none", damage)
					}
				})
			}
			if c.fails != nil {
				continue
			}
			t.Run(fmt.Sprintf("%s/%s/account", c.name, format), func(t *testing.T) {
				report, err := Check(bytes.NewReader(data), "log")
				if err != nil {
					t.Fatal(err)
				}
				for _, a := range report.Rows {
					if a.Kind != Events || c.missing == nil && c.lost != nil {
						continue
					}
					var want []Range
					if m, ok := c.missing[a.Shard]; ok {
						want = []Range{m}
						if c.name == "zeros_in_the_middle" {
							// The drops that account for row 500 are lost as well.
							want = []Range{{300, 501}}
						}
					}
					if !slices.Equal(a.Missing, want) {
						t.Errorf("missing %v, want %v", a.Missing, want)
					}
				}
				if whole := c.lost == nil && c.why == nil; report.Whole() != whole {
					t.Errorf("whole is %v, want %v: %+v", report.Whole(), whole, report)
				}
			})
		}
	}
}

// A header that no writer writes is no header, even if its checksum matches.
func TestSenselessBlockHeadersAreRefused(t *testing.T) {
	good := blockHeader{kind: Events, coding: payloadPlain, rows: 3, length: 48}
	parses := func(h blockHeader) (binary, text bool) {
		b := make([]byte, blockHeaderSize)
		h.put(b)
		_, binary = parseBlockHeader(b)
		h.coding = payloadText
		line := h.appendLine(nil)
		_, text = parseBlockLine(line[:len(line)-1])
		return binary, text
	}
	if binary, text := parses(good); !binary || !text {
		t.Fatalf("a good one is refused: %v, %v", binary, text)
	}
	for name, c := range map[string]struct {
		spoil  func(h *blockHeader)
		inText bool // valid there
	}{
		"no kind":         {spoil: func(h *blockHeader) { h.kind = 0 }},
		"unknown kind":    {spoil: func(h *blockHeader) { h.kind = 9 }},
		"kind beyond all": {spoil: func(h *blockHeader) { h.kind = 200 }},
		"unknown coding":  {spoil: func(h *blockHeader) { h.coding = 3 }, inText: true},
		"text in a binary file": {spoil: func(h *blockHeader) {
			h.coding = payloadText
		}, inText: true},
		"no rows": {spoil: func(h *blockHeader) { h.rows = 0 }},
		"too many rows": {spoil: func(h *blockHeader) {
			h.rows, h.length = MaxRows+1, 16*(MaxRows+1)
		}},
		"no bytes":        {spoil: func(h *blockHeader) { h.length = 0 }},
		"plain and short": {spoil: func(h *blockHeader) { h.length = 47 }, inText: true},
		"plain and long":  {spoil: func(h *blockHeader) { h.length = 49 }, inText: true},
		"compressed, not smaller": {spoil: func(h *blockHeader) {
			h.coding = payloadCompressed
		}, inText: true},
		"text too long":       {spoil: func(h *blockHeader) { h.length = 6*textWordBytes + 1 }},
		"sequence that wraps": {spoil: func(h *blockHeader) { h.first = 1<<64 - 2 }},
	} {
		h := good
		c.spoil(&h)
		if binary, text := parses(h); binary || text != c.inText {
			t.Errorf("%s: taken as binary %v, as text %v, want false, %v", name, binary, text,
				c.inText)
		}
	}
	h := good
	h.coding = payloadText
	line := string(h.appendLine(nil))
	for name, spoil := range map[string][2]string{
		"two spaces":     {"shard 0", "shard  0"},
		"leading zero":   {"rows 3", "rows 03"},
		"other words":    {"counters", "contains"},
		"capital digits": {"crc32c 00000000", "crc32c 0000000A"},
		"long checksum":  {"crc32c 00000000", "crc32c 000000000"},
		"short ring":     {"incarnation 00", "incarnation "},
	} {
		body := strings.Replace(line[:len(line)-9], spoil[0], spoil[1], 1)
		if body == line[:len(line)-9] {
			t.Fatalf("%s: nothing is spoilt in %q", name, line)
		}
		body += fmt.Sprintf("%08x", checksum([]byte(body)))
		if _, ok := parseBlockLine([]byte(body)); ok {
			t.Errorf("%s: %q is taken", name, body)
		}
	}
}

// A segment's rows begin where its header says. An older block in it is not part of this segment.
func TestRowsBeforeTheSegmentAreNotReadAgain(t *testing.T) {
	h := sampleHeader(t, Plain)
	h.Segment, h.Continues = 1, []Place{{Events, 0, 100}}
	e := new(encoder)
	old := &Block{Incarnation: sampleIncarnation, First: 90, Events: make([]Event, 5)}
	across := &Block{Incarnation: sampleIncarnation, First: 98, Events: make([]Event, 5)}
	data := e.appendBlock(appendHeader(nil, &h), old, Plain, 1)
	data = e.appendBlock(data, across, Plain, 1)
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

// One bit of any byte is flipped. All readers return the rows of the other blocks, and nothing that
// was not written.
func TestAnyFlippedBit(t *testing.T) {
	blocks := sampleBlocks()
	for _, format := range formats {
		whole := writeLog(t, sampleHeader(t, format), blocks, true)
		header, places, _ := spans(t, whole)
		step := 5 // shares no factor with 8, so it covers every bit of a byte
		if format == Text {
			step = 23
		}
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
			want := survivors(t, blocks, lost...)
			for _, name := range []string{"stream", "file"} {
				rows, _, err := readers[name](t, data)
				if at < header.to {
					if err == nil {
						t.Fatalf("%s, %s: bit at %d of the header is not noticed", format, name, at)
					}
					continue
				}
				if err != nil {
					t.Fatalf("%s, %s: bit at %d: %v", format, name, at, err)
				}
				if !maps.Equal(rows, want) {
					t.Errorf("%s, %s: bit at %d", format, name, at)
					diffRows(t, rows, want)
					return
				}
			}
		}
	}
}
