package ring

import (
	"fmt"
	"os"
	"reflect"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/cloudprofiler/cloudprofiler/channel"
)

// structHeading matches a heading of FORMAT.md that ends in the name and the size of a struct. Such
// a section has a table of the struct's fields.
var structHeading = regexp.MustCompile(`^#+ .*: ([A-Za-z]+), ([0-9]+) bytes$`)

var tableRow = regexp.MustCompile(`^\| (.*) \|$`)

// readTables reads FORMAT.md. structs has the rows of each struct's table, by the struct's name.
// numbers has the rows of all other tables, which give values to names.
func readTables(t *testing.T) (structs map[string][]string, numbers []string) {
	t.Helper()
	text, err := os.ReadFile("FORMAT.md")
	if err != nil {
		t.Fatal(err)
	}
	structs = make(map[string][]string)
	name := ""
	for _, line := range strings.Split(string(text), "\n") {
		if strings.HasPrefix(line, "#") {
			name = ""
			if m := structHeading.FindStringSubmatch(line); m != nil {
				name = m[1]
				structs[name] = append(structs[name], "size "+m[2])
			}
			continue
		}
		m := tableRow.FindStringSubmatch(line)
		if m == nil || strings.HasPrefix(line, "|---") {
			continue
		}
		cell := strings.Split(m[1], " | ")
		switch {
		case cell[1] == "offset" || cell[1] == "value":
		case name != "":
			structs[name] = append(structs[name],
				fmt.Sprintf("%s at %s, %s bytes", cell[0], cell[1], cell[2]))
		default:
			numbers = append(numbers, cell[0]+" = "+cell[1])
		}
	}
	return structs, numbers
}

func TestFormatTablesAreTheStructs(t *testing.T) {
	got, _ := readTables(t)
	want := make(map[string][]string)
	for _, v := range []any{header{}, identity{}, control{}, slot{}, shard{}, producerLine{},
		consumerLine{}, cells{}, FirstLast{}, journalEntry{}, dropRange{}, Record{}} {
		s := reflect.TypeOf(v)
		rows := []string{fmt.Sprintf("size %d", s.Size())}
		for i := range s.NumField() {
			f := s.Field(i)
			name := f.Name
			if name == "_" {
				name = "–"
			}
			rows = append(rows, fmt.Sprintf("%s at %d, %d bytes", name, f.Offset, f.Type.Size()))
		}
		want[s.Name()] = rows
	}
	for name := range got {
		if want[name] == nil {
			t.Errorf("FORMAT.md has a table of %s, the code no such struct", name)
		}
	}
	for name := range want {
		sameLines(t, name, want[name], got[name])
	}
}

// sameLines compares what the code says with what FORMAT.md says.
func sameLines(t *testing.T, what string, code, document []string) {
	t.Helper()
	for i := range max(len(code), len(document)) {
		c, d := "nothing", "nothing"
		if i < len(code) {
			c = code[i]
		}
		if i < len(document) {
			d = document[i]
		}
		if c != d {
			t.Errorf("%s, row %d: the code has %q, FORMAT.md %q", what, i, c, d)
		}
	}
}

func TestFormatTablesAreTheNumbers(t *testing.T) {
	_, got := readTables(t)
	want := []string{
		number("version", version), number("pageBytes", pageBytes),
		number("RecordBytes", RecordBytes), number("MinRecords", MinRecords),
		number("MaxRecords", MaxRecords), number("MaxShards", MaxShards), number("slots", slots),
		number("JournalSize", JournalSize),
		number("DropsSize", DropsSize), number("maxGeneration", maxGeneration),
		number("MaxEvents", MaxEvents),
		number("FlagBadSettings", FlagBadSettings), number("FlagMisuse", FlagMisuse),
		number("FlagClosed", FlagClosed),
	}
	for k := channel.Kind(0); k.Known(); k++ {
		want = append(want, number("kind "+k.String(), uint64(k)))
	}
	for p := channel.Policy(0); p.Known(); p++ {
		want = append(want, number("policy "+p.String(), uint64(p)))
	}
	for s := channel.Stamp(0); s.Known(); s++ {
		want = append(want, number("stamp "+s.String(), uint64(s)))
	}
	sameLines(t, "numbers", want, got)
}

func number(name string, value uint64) string {
	return name + " = " + strconv.FormatUint(value, 10)
}

// The numbers in the prose of FORMAT.md agree with the code.
func TestFormatPlacesInTheFile(t *testing.T) {
	if shardOffset(0) != 4096 || shardOffset(1) != 8192 || recordsOffset(4) != 5*4096 ||
		fileBytes(4, 16) != 5*4096+4*16*16 {
		t.Error("places differ from the drawing")
	}
	if w := NewWord(0x1234, channel.XoY, 7); w != 0x1234_05_07 || w.Generation() != 0x1234 ||
		w.Kind() != channel.XoY || w.slot() != 7 {
		t.Errorf("word = %#x", uint64(w))
	}
	if string(magic) != "CP-RING\n" || channel.MaxNode+1 != 16384 {
		t.Error("magic or node numbers differ")
	}
	for seq, want := range map[uint64]uint64{0: lapBit, 15: lapBit, 16: 0, 31: 0, 32: lapBit} {
		if lapMark(seq, 16) != want {
			t.Errorf("lap mark of sequence %d of 16 is %#x", seq, lapMark(seq, 16))
		}
	}
}

// Each byte of a ring file is as FORMAT.md says, except bytes that depend on the machine or the
// time.
func TestFormatBytes(t *testing.T) {
	p := newRing(t, func(c *Config) {
		c.Settings = channel.Settings{Kind: channel.XoY, A: 3, B: 0x0102}
		c.Policy, c.Stamp = channel.Drop, channel.Unordered
	})
	s := &p.Shards[0]
	for i := range uint64(17) {
		putRecords(s, 0x1000+i, 0x2000+i)
	}
	p.Raise(FlagMisuse)
	p.Snapshot()
	p.Snapshot()
	c := drain(t, p.Path)
	must(t, c.Answered(1))
	if err := c.Release(0, 5, 0, 1); err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(p.Path)
	if err != nil {
		t.Fatal(err)
	}
	if len(b) != 2*4096+16*16 {
		t.Fatalf("%d bytes", len(b))
	}
	name := "actor#1/start"
	for _, part := range []struct {
		what  string
		at    int
		bytes string
	}{
		{"magic, version 3, 1 shard", 0, "CP-RING\n\x03\x00\x00\x00\x01\x00\x00\x00"},
		{
			"16 records, length", 16,
			"\x10\x00\x00\x00\x00\x00\x00\x00\x00\x21\x00\x00\x00\x00\x00\x00",
		},
		{"incarnation", 32, string(p.Incarnation[:])},
		{
			"no node, one writer, drop, rdtsc, name's length, no links", 92,
			"\x00\x40\x00\x00\x00\x01\x01" + string(rune(len(name))) + "\x00\x00\x00\x00",
		},
		{"name", 104, name + strings.Repeat("\x00", 128-len(name))},
		{"word of many writers", 1024, le64(0)},
		{
			"slot 0", 1088,
			"\x05\x00\x00\x00\x00\x00\x00\x00\x03\x00\x00\x00\x00\x00\x00\x00" +
				"\x02\x01\x00\x00\x00\x00\x00\x00",
		},
		{
			"tail, dropped, drops, journal, flags, asked, word", 4096,
			le64(16) + le64(1) + le64(1) + le64(1) + le64(2) + le64(2) +
				"\x00\x05\x01\x00\x00\x00\x00\x00",
		},
		{"head, drops, journal, asked", 4096 + 128, le64(5) + le64(0) + le64(1) + le64(1)},
		{
			"journal", 4096 + 512,
			le64(0x10500) + le64(5) + le64(3) + le64(0x102) + le64(0) +
				le64(p.header.identity.openedCounter) + le64(0) + le64(0),
		},
		{"drops", 4096 + 1536, le64(16) + le64(0) + le64(0x1010) + le64(0x1010)},
		{"records", 8192, le64(0x1000) + le64(0x2000) + le64(0x1001) + le64(0x2001)},
		{"last record", 8192 + 15*16, le64(0x100f) + le64(0x200f)},
	} {
		if got := string(b[part.at:][:len(part.bytes)]); got != part.bytes {
			t.Errorf("%s at %d: % x, want % x", part.what, part.at, got, part.bytes)
		}
	}
}

// le64 returns 8 bytes as amd64 and arm64 store them.
func le64(v uint64) string {
	b := make([]byte, 8)
	for i := range b {
		b[i] = byte(v >> (8 * i))
	}
	return string(b)
}
