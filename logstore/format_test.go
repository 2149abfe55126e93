package logstore

import (
	"bytes"
	"encoding/hex"
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"unsafe"
)

var update = flag.Bool("update", false, "write the files of testdata anew")

// FORMAT.md has a table for each list of numbered constants in this test. The table contains
// exactly the numbers of the list.
func TestFormatDocumentAgrees(t *testing.T) {
	text, err := os.ReadFile("FORMAT.md")
	if err != nil {
		t.Fatal(err)
	}
	kindNames, kindWords := map[int]string{}, map[int]string{}
	for k, info := range kindTable {
		if info.name == "" {
			continue
		}
		kindNames[k] = info.name
		var words []string
		for i, word := range info.columns {
			if slices.Contains(info.counters, i) {
				word += " ●"
			}
			if reflect.TypeOf(rowTypes[Kind(k)]).Field(i).Type.Kind() == reflect.Int64 {
				word += " (signed)"
			}
			words = append(words, word)
		}
		kindWords[k] = strings.Join(words, ", ")
	}
	reasons := map[int]string{}
	for r, name := range reasonNames {
		reasons[int(r)] = name
	}
	for _, c := range []struct {
		table  string // second cell of the table's head
		column int
		want   map[int]string
	}{
		{"name", 1, kindNames},
		{"name", 2, kindWords},
		{"reason", 1, reasons},
		{"word", 1, map[int]string{
			int(Unsaid): "----", int(GoesOn): "next", int(Moved): "away", int(Ended): "done",
		}},
		{
			"coding", 1,
			map[int]string{
				payloadPlain: "plain", payloadCompressed: "compressed", 2: "reserved",
				payloadHurried: "hurried",
			},
		},
		{
			"column", 1,
			map[int]string{
				columnPlain: "plain", columnDelta: "delta", columnFrames: "frames",
				columnMerged: "merged", columnShuffled: "shuffled",
			},
		},
		{
			"form", 1,
			map[int]string{
				numbersConstant: "constant", numbersSplit: "split", numbersWhole: "whole",
			},
		},
		{
			"symbols", 1,
			map[int]string{
				symbolsPacked: "packed", symbolsHuffman: "huffman", symbolsConstant: "constant",
			},
		},
	} {
		if got := formatTable(string(text), c.table, c.column); !maps.Equal(got, c.want) {
			t.Errorf("table of %s: FORMAT.md has\n%v\nthe code has\n%v", c.table, got, c.want)
		}
	}
	prose := strings.Join(strings.Fields(string(text)), " ")
	for what, want := range map[string]string{
		"version":      fmt.Sprintf("# The log format, version %d ", Version),
		"rows":         "At most 65,536 rows",
		"header limit": "at most 65,536 bytes",
		"low":          fmt.Sprintf("low is at most %d", packLimit),
		"frame":        fmt.Sprintf("below %d", frameLength),
		"block magic":  "F5 43 50 42",
		"end magic":    "F5 43 50 45 4E 44 0D 0A",
		"no number":    "16384: none",
		"fingerprint":  "last 4,096 bytes",
	} {
		if !strings.Contains(prose, want) {
			t.Errorf("%s: FORMAT.md lacks %q", what, want)
		}
	}
	if fingerprintBytes != 4096 || MaxRows != 65_536 || headerLimit != 65_536 ||
		hexBytes(blockMagic) != "F5 43 50 42" || hexBytes(endMagic) != "F5 43 50 45 4E 44 0D 0A" {
		t.Error("a constant that FORMAT.md spells out has changed")
	}
	for _, f := range []string{headerFormat, "plain", "ascii"} {
		if !strings.Contains(string(text), "| "+f+" |") {
			t.Errorf("FORMAT.md lacks format %q", f)
		}
	}
	// Each line of a header has a row in the table.
	h := sampleHeader(t)
	h.Continues, h.Previous, h.Rewritten = []Place{{Events, 0, 1}}, Fingerprint{1, 2, 3}, true
	for i, line := range strings.Split(string(appendHeader(nil, &h)), "\n") {
		key, _, _ := strings.Cut(line, " ")
		if i > 0 && key != "" && key != "#" && key != "crc32c" &&
			!strings.Contains(string(text), "\n| "+key+" |") {
			t.Errorf("FORMAT.md lacks line %q of the header", key)
		}
	}
}

func hexBytes(s string) string {
	return strings.TrimSpace(strings.ToUpper(
		regexp.MustCompile("..").ReplaceAllString(hex.EncodeToString([]byte(s)), "$0 ")))
}

// formatTable looks in a text for tables whose first column has the head "number", and whose second
// column has the given name as its head. It returns the cells of one column, by the number in the
// same row.
func formatTable(text, name string, column int) map[int]string {
	got := map[int]string{}
	inside := false
	for _, line := range strings.Split(text, "\n") {
		line = strings.TrimSpace(line)
		cells := strings.Split(strings.Trim(line, "|"), "|")
		if !strings.HasPrefix(line, "|") || len(cells) < 2 {
			inside = false
			continue
		}
		head := strings.TrimSpace(cells[1])
		if strings.TrimSpace(cells[0]) == "number" {
			inside = head == name || len(cells) == 2 && head == name
			continue
		}
		if number, err := strconv.Atoi(strings.TrimSpace(cells[0])); inside && err == nil &&
			column < len(cells) {
			cell := strings.TrimSpace(cells[column])
			if len(cells) == 2 { // a name, and its meaning
				cell, _, _ = strings.Cut(cell, ":")
			}
			got[number] = cell
		}
	}
	return got
}

var rowTypes = map[Kind]any{
	Events: Event{}, Links: Link{}, Samples: Sample{}, FirstLasts: FirstLast{},
	Transitions: Transition{},
	Drops:       Drop{}, ReturnTrips: ReturnTrip{}, NTPs: NTP{}, index: indexEntry{},
}

func TestRowsAreWords(t *testing.T) {
	for kind, row := range rowTypes {
		typ := reflect.TypeOf(row)
		if int(typ.Size()) != 8*kind.columns() || typ.NumField() != kind.columns() ||
			typ.Align() != int(unsafe.Alignof(uint64(0))) {
			t.Errorf("%s: %d bytes, %d fields, %d columns", kind, typ.Size(), typ.NumField(),
				kind.columns())
		}
		for i := range typ.NumField() {
			if typ.Field(i).Type.Size() != 8 {
				t.Errorf("%s: field %s is no word", kind, typ.Field(i).Name)
			}
		}
	}
}

func TestExactBytes(t *testing.T) {
	incarnation := sampleIncarnation
	b := Block{
		Incarnation: incarnation, Shard: 0x0102, First: 0x0304, Plain: true,
		Events: []Event{{26 * 10, 0xA1}, {26 * 12, 0xA2}, {26 * 15, 0xA3}},
	}
	var many Block
	for i := range 20 {
		many.Events = append(many.Events, Event{26 * uint64(10+i*i), 7 + uint64(i)})
	}
	// The first frame has two values, and the second frame has four.
	dirty := bytes.Repeat([]byte{0xff}, 50)
	shuffled, _ := appendShuffled(dirty[:0], []uint64{1, 0, 3, 0, 1, 2}, 2)
	e := new(encoder)
	for _, c := range []struct {
		name string
		got  []byte
		want string
	}{
		{"plain block", e.appendBlock(nil, &b, 26), `
			f5435042 01 00 0201 0403000000000000 0102030405060708090a0b0c0d0e0f10
			0401000000000000 8601000000000000 03000000 30000000 c79c5ca2 218f6525
			0401000000000000 a100000000000000
			3801000000000000 a200000000000000
			8601000000000000 a300000000000000`},
		{"compressed columns", e.appendBlock(nil, &many, 26)[blockHeaderSize:], `
			01 0401000000000000 1a
			01 0100000000000000 00 08 00 00 00020406080a0c0e10121416181a1c1e202224
			01 0700000000000000 01 00 0100000000000000`},
		{"shuffled frames", shuffled, `04 02 0130080100 00000000000000`},
		{"end of version 1", (&endFrame{offset: 0x0102030405, rows: 3}).append(nil), `
			f5435045 4e440d0a 0504030201000000 0300000000000000 00000000 4acd695a`},
		{"end", (&endFrame{offset: 0x0102030405, rows: 3, then: Moved}).append(nil), `
			f5435045 4e440d0a 0504030201000000 0300000000000000 02000000 cbee0ee5`},
	} {
		want := strings.Join(strings.Fields(c.want), "")
		if got := hex.EncodeToString(c.got); got != want {
			t.Errorf("%s:\n got %s\nwant %s", c.name, got, want)
		}
	}
}

// shippedBlocks returns the content of the files in testdata. This content must not change, because
// files of old versions cannot be written again. A new version gets a file of its own.
func shippedBlocks() []*Block {
	blocks := sampleBlocks()
	rng := rand.New(rand.NewPCG(3, 4))
	counter := uint64(26 << 50)
	next := func(mean float64) uint64 {
		counter += 26 * (1 + uint64(rng.ExpFloat64()*mean))
		return counter
	}
	const n = 700
	ids := func(shard int, mean float64, id func(i int) uint64) {
		b := &Block{Incarnation: sampleIncarnation, Shard: shard}
		for i := range n {
			b.Events = append(b.Events, Event{next(mean), id(i)})
		}
		blocks = append(blocks, b)
	}
	ids(10, 0.2, func(i int) uint64 { return 1<<50 + uint64(i) })
	order := rng.Perm(64)
	ids(11, 100, func(i int) uint64 { return 1<<50 + uint64(i&^63+order[i&63]) })
	ids(12, 1e5, func(i int) uint64 { return rng.Uint64() })
	var last [5]uint64
	ids(13, 3, func(i int) uint64 {
		s := rng.IntN(len(last))
		last[s]++
		return uint64(s)<<50 | last[s]
	})
	return blocks
}

// shippedHeader returns the header of the file in testdata that has the given version.
func shippedHeader(t *testing.T, version int) Header {
	h := sampleHeader(t)
	if version == 1 {
		h.Part = UnknownPart
		return h
	}
	h.Segment, h.Part, h.Rewritten = 4, 3, true
	h.Previous = Fingerprint{Bytes: 1234, Head: 0x01020304, Tail: 0xfffefdfc}
	h.Continues = []Place{{Samples, 7, 11}}
	return h
}

// shippedBlocksOf returns the blocks of the file with the given version. From version 2 on, the
// file is a later segment of a log, so it has one more block, which continues the samples of shard
// 7.
func shippedBlocksOf(version int) []*Block {
	blocks := shippedBlocks()
	if version > 1 {
		samples := []Sample{{26 << 46, 5}}
		blocks = append(blocks, &Block{
			Incarnation: sampleIncarnation, Shard: 7, First: 11, Samples: samples,
		})
	}
	return blocks
}

// Readers must return exactly what was written to the file of each shipped version. For a new
// version, make the file by: go test ./logstore -run Shipped -update.
func TestShippedVersionsAreRead(t *testing.T) {
	for version := 1; version <= Version; version++ {
		blocks := shippedBlocksOf(version)
		path := filepath.Join("testdata", fmt.Sprintf("v%d-compressed.cplog", version))
		header := shippedHeader(t, version)
		then := map[int]End{1: Unsaid, 2: Moved}[version]
		if *update && version == Version {
			os.Remove(path)
			writeLogTo(t, path, header, blocks, &then)
		}
		data, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range slices.Sorted(maps.Keys(readers)) {
			if name == "segments" && version > 1 {
				continue // this reader accepts only the first segment of a log
			}
			rows, damage, err := readers[name](t, data)
			if err != nil || len(damage) > 0 {
				t.Fatalf("%s, %s: error %v, damage %v", path, name, err, damage)
			}
			diffRows(t, rows, rowsOfAll(t, blocks))
		}
		r, err := NewReader(bytes.NewReader(data), path)
		if err != nil || !sameHeader(r.Header(), header) || r.header.version != version {
			t.Errorf("%s: header %+v, error %v", path, r.header, err)
		}
		f, err := NewFile(bytes.NewReader(data), int64(len(data)), path)
		if err != nil || !f.sealed || f.indexBy != byEnd || f.Then() != then {
			t.Errorf("%s: %+v, error %v", path, f, err)
		}
		// A later encoder may compress blocks in another way. But the bytes of a header must not
		// change.
		if version == Version && !bytes.HasPrefix(data, appendHeader(nil, &header)) {
			t.Errorf("%s: its header is written in other bytes now", path)
		}
	}
}
