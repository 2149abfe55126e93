package export

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"

	"github.com/parquet-go/parquet-go"

	"github.com/cloudprofiler/cloudprofiler/analysis"
	"github.com/cloudprofiler/cloudprofiler/tscratio"
)

// anEvent and aDuration have a different value in each field. Some values are the largest that a
// column can hold.
var (
	anEvent = analysis.EventRow{
		ID: 1<<64 - 1, Tuple: 7, At: tscratio.Interval{Lo: 1 << 63, Hi: 1<<63 + 4},
		Node: "n", Channel: "a#5/p", Point: "a/p", Verdict: tscratio.Suspect,
	}
	aDuration = analysis.DurationRow{
		ID: 6, Tuple: 7, From: "a/p", To: "b/q", FromNode: "n", ToNode: "m", Kind: "transfer",
		Critical: analysis.SurelyCritical,
		Duration: tscratio.Duration{
			Elapsed: tscratio.Elapsed{Lo: -8, Hi: 9}, Scenario: tscratio.Direct,
			Verdict: tscratio.Suspect,
		},
	}
)

// aBasis has a different value in each field.
var aBasis = analysis.Basis{
	Reference: analysis.Reference{Node: "n", FrequencyLo_hz: 1e9, FrequencyHi_hz: 2e9,
		Source: "a clock"},
	ThirdNodes: tscratio.ThirdAny, Zero_cycles: 1<<63 + 1, Declared_ppm: 1.5, Used_ppm: 2.5,
	Window_s: 10, Relations: 3, Suspect: 4, Kept: analysis.Sampled, Lacks: "sampled: a keeps less",
}

// files has the written files by name. The name of a file is that of its table. If the table is
// written in parts, a space and the number of the part follow, as in "events 0".
type files map[string]*bytes.Buffer

func (f files) create(name string) io.WriteCloser {
	f[name] = &bytes.Buffer{}
	return closeCounter{f[name]}
}

type closeCounter struct{ io.Writer }

func (closeCounter) Close() error { return nil }

// parquetTables returns tables that are written as Parquet into the files that create makes.
func parquetTables(create func(name string) io.WriteCloser, partRows int) *tables {
	return newTables(&parquetWriter{
		create: func(table string, part int) (io.WriteCloser, error) {
			return create(fmt.Sprint(table, " ", part)), nil
		},
		small:    []io.Writer{create("edges"), create("about"), create("origins")},
		partRows: partRows,
	})
}

// writeParquet writes the same rows for each of the given number of tuples.
func writeParquet(create func(name string) io.WriteCloser, tuples int, partRows int) error {
	t := parquetTables(create, partRows)
	err := t.begin("r", aBasis)
	e, d := anEvent, aDuration
	for i := range tuples {
		e.Tuple, d.Tuple = uint64(i+1), uint64(i+1)
		err = errors.Join(err, t.duration(&d), t.event(&e))
	}
	return errors.Join(err, t.finish(nil))
}

// Columns have the names and types of FORMAT.md, and each column has the values of its own field.
func TestParquetRows(t *testing.T) {
	written := files{}
	s := parquetTables(written.create, partRows)
	unplaced, made := anEvent, aDuration
	unplaced.Unplaced = true
	made.Tuple, made.Origin, made.Made, made.Lo = 0, 8, 9, 1<<60
	// The difference of these two events is an interval from 1 to 7. The interval of the duration
	// is from −8 to 9. So its low end is 9 below that of the difference, and its high end is 2
	// above.
	narrow := aDuration
	narrow.Tuple, narrow.Origin, narrow.Made = 0, 1, 2
	narrow.Ends = [2]tscratio.Interval{{Lo: 100, Hi: 102}, {Lo: 103, Hi: 107}}
	wide := narrow // here the difference contains the duration
	wide.Ends = [2]tscratio.Interval{{Lo: 100, Hi: 112}, {Lo: 103, Hi: 110}}
	if err := errors.Join(s.begin("r", aBasis), s.duration(&aDuration), s.event(&anEvent),
		s.event(&unplaced), s.duration(&made), s.duration(&narrow), s.duration(&wide),
		s.finish(nil)); err != nil {
		t.Fatal(err)
	}
	about := strings.Split(`version 1
run r
reference_node n
zero_cycles 9223372036854775809
frequency_lo_hz 1000000000
frequency_hi_hz 2000000000
frequency_source a clock
wander_ppm 1.5
wander_used_ppm 2.5
wander_window_s 10
relations 3
suspect_relations 4
third_nodes any
cycles of the counter of reference_node; events count from zero_cycles
nanoseconds seconds are cycles divided by 1.50 ± 0.50 GHz, measured against a clock; `+
		`their bounds include its error
intervals lo and hi contain the truth if rates of two counters wander by at most `+
		`wander_ppm within wander_window_s, and the verdict is consistent
kept sampled
kept_why sampled: a keeps less`, "\n")
	for name, table := range map[string]struct {
		schema string
		rows   []string
	}{
		"events 0": {`message events {
	required int64 tuple_id (INT(64,false));
	required int64 way (INT(64,true));
	required int32 path (INT(32,true));
	optional int64 lo_cycles (INT(64,true));
	optional int64 hi_cycles (INT(64,true));
	optional int64 lo_ns (INT(64,true));
	optional int64 hi_ns (INT(64,true));
	required binary node (STRING);
	required binary channel (STRING);
	required binary point (STRING);
	required binary verdict (STRING);
}`, []string{
			// The event is at most 1 cycle before zero and at most 3 after it. At 1 to 2 GHz, a
			// cycle takes at most 1 ns.
			"18446744073709551615 7 0 -1 3 -1 3 n a#5/p a/p suspect",
			"18446744073709551615 7 0 <null> <null> <null> <null> n a#5/p a/p unknown",
		}},
		"durations 0": {`message durations {
	required int64 tuple_id (INT(64,false));
	required int64 way (INT(64,true));
	required int64 from_way (INT(64,true));
	required binary from_point (STRING);
	required binary to_point (STRING);
	required binary from_node (STRING);
	required binary to_node (STRING);
	required binary kind (STRING);
	required binary critical (STRING);
	required int64 lo_cycles (INT(64,true));
	required int64 hi_cycles (INT(64,true));
	optional int64 lo_ns (INT(64,true));
	optional int64 hi_ns (INT(64,true));
	required binary scenario (STRING);
	required binary verdict (STRING);
}`, []string{
			"6 7 7 a/p b/q n m transfer surely -8 9 -8 9 direct suspect",
			"6 9 8 a/p b/q n m transfer surely 1152921504606846976 9 576460752303423488 9 " +
				"direct suspect",
			"6 2 1 a/p b/q n m transfer surely -8 9 -8 9 direct suspect",
			"6 2 1 a/p b/q n m transfer surely -8 9 -8 9 direct suspect",
		}},
		"edges": {`message edges {
	required int32 path (INT(32,true));
	required binary from_point (STRING);
	required binary to_point (STRING);
	required binary kind (STRING);
}`, []string{"0 a/p b/q transfer"}},
		"origins": {`message origins {
	required int64 way (INT(64,true));
	required int64 from_way (INT(64,true));
	required binary from_point (STRING);
	required binary to_point (STRING);
	required binary kind (STRING);
	required int64 earlier_cycles (INT(64,true));
	required int64 later_cycles (INT(64,true));
}`, []string{"9 8 a/p b/q transfer 0 0", "2 1 a/p b/q transfer 2 9",
			"2 1 a/p b/q transfer 0 0"}},
		"about": {`message about {
	required binary key (STRING);
	required binary value (STRING);
}`, about},
	} {
		f := openParquet(t, written[name])
		if got := f.Schema().String(); got != table.schema {
			t.Errorf("%s: schema\n%s\nwant\n%s", name, got, table.schema)
		}
		var pairs []string
		for _, kv := range f.Metadata().KeyValueMetadata {
			pairs = append(pairs, kv.Key+" "+kv.Value)
		}
		slices.Sort(pairs)
		if want := slices.Sorted(slices.Values(about)); !slices.Equal(pairs, want) {
			t.Errorf("%s: metadata %q, want %q", name, pairs, want)
		}
		if got := rowsOf(t, f); !slices.Equal(got, table.rows) {
			t.Errorf("%s: rows %q, want %q", name, got, table.rows)
		}
	}
}

func openParquet(t *testing.T, file *bytes.Buffer) *parquet.File {
	t.Helper()
	f, err := parquet.OpenFile(bytes.NewReader(file.Bytes()), int64(file.Len()))
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// rowsOf returns the rows as text, with spaces between the columns.
func rowsOf(t *testing.T, f *parquet.File) (rows []string) {
	t.Helper()
	r := parquet.NewReader(f)
	defer r.Close()
	for {
		buffer := make([]parquet.Row, 100)
		n, err := r.ReadRows(buffer)
		for _, row := range buffer[:n] {
			var words []string
			for i, v := range row {
				if f.Schema().Fields()[i].Type().String() == "INT(64,false)" {
					words = append(words, fmt.Sprint(v.Uint64()))
				} else {
					words = append(words, v.String())
				}
			}
			rows = append(rows, strings.Join(words, " "))
		}
		if err == io.EOF {
			return rows
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

// If the frequency is not known, there are no ns.
func TestParquetWithoutFrequency(t *testing.T) {
	written := files{}
	s := parquetTables(written.create, partRows)
	basis := aBasis
	basis.Reference.FrequencyLo_hz, basis.Reference.FrequencyHi_hz = 0, 0
	if err := errors.Join(s.begin("r", basis), s.duration(&aDuration), s.event(&anEvent),
		s.finish(nil)); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{
		"events 0":    "18446744073709551615 7 0 -1 3 <null> <null> n a#5/p a/p suspect",
		"durations 0": "6 7 7 a/p b/q n m transfer surely -8 9 <null> <null> direct suspect",
	} {
		if rows := rowsOf(t, openParquet(t, written[name])); !slices.Equal(rows, []string{want}) {
			t.Errorf("%s: %q, want %q", name, rows, want)
		}
	}
}

// An engine reads a whole row group at once, so FORMAT.md promises how large a row group is. A run
// may have no rows.
func TestParquetRowGroups(t *testing.T) {
	for rows, want := range map[int][]int64{0: nil, 1: {1}, 2*131_072 + 3: {131_072, 131_072, 3}} {
		written := files{}
		if err := writeParquet(written.create, rows, partRows); err != nil {
			t.Fatal(err)
		}
		for _, name := range []string{"events 0", "durations 0"} {
			var sizes []int64
			for _, g := range openParquet(t, written[name]).RowGroups() {
				sizes = append(sizes, g.NumRows())
			}
			if !slices.Equal(sizes, want) {
				t.Errorf("%d rows are in groups of %d, want %d", rows, sizes, want)
			}
		}
	}
}

// All rows of a tuple are in one part, and a part has rows of both tables.
func TestParquetParts(t *testing.T) {
	written := files{}
	s := parquetTables(written.create, 10)
	err := s.begin("r", aBasis)
	e, d := anEvent, aDuration
	for way := range uint64(9) { // a tuple has 4 rows: the third tuple reaches the limit
		e.Tuple, d.Tuple = way+1, way+1
		err = errors.Join(err, s.duration(&d), s.duration(&d), s.event(&e), s.event(&e))
	}
	for range 22 { // one row for each tuple that was made of others
		d.Tuple = 0
		err = errors.Join(err, s.duration(&d))
	}
	if err := errors.Join(err, s.finish(nil)); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{
		"events 0": "112233", "durations 0": "112233", "events 1": "445566",
		"durations 1": "445566", "events 2": "778899", "durations 2": "778899",
		"events 3": "", "durations 3": "0000000000", "durations 4": "0000000000",
		"durations 5": "00", "events 5": "", "events 6": "absent",
	} {
		got := "absent"
		if written[name] != nil {
			got = ""
			for _, row := range rowsOf(t, openParquet(t, written[name])) {
				got += strings.Fields(row)[1]
			}
		}
		if got != want {
			t.Errorf("%s has ways %q, want %q", name, got, want)
		}
	}
}

var errFull = errors.New("no space")

// smallWriter is a writer that takes the given number of bytes and then fails.
type smallWriter struct{ left int }

func (s *smallWriter) Write(b []byte) (int, error) {
	if len(b) > s.left {
		n := s.left
		s.left = 0
		return n, errFull
	}
	s.left -= len(b)
	return len(b), nil
}

func (*smallWriter) Close() error { return nil }

// If a disk is full, the export fails, whichever byte is the first that does not fit.
func TestParquetTellsThatTheDiskIsFull(t *testing.T) {
	for table, rows := range map[string]int{"events 0": 131_072 + 3, "durations 0": 131_072 + 3,
		"edges": 3, "about": 3, "origins": 3} {
		written := files{}
		if err := writeParquet(written.create, rows, partRows); err != nil {
			t.Fatal(err)
		}
		n := written[table].Len()
		full := func(left int) error {
			return writeParquet(func(name string) io.WriteCloser {
				if name == table {
					return &smallWriter{left}
				}
				return closeCounter{io.Discard}
			}, rows, partRows)
		}
		for _, left := range []int{0, 3, 4, n / 2, n - 5, n - 1} {
			word, _, _ := strings.Cut(table, " ")
			if err := full(left); !errors.Is(err, errFull) ||
				!strings.Contains(err.Error(), `table "`+word+`"`) {
				t.Errorf("of %d bytes of %s %d can be written: %v", n, table, left, err)
			}
		}
		if err := full(n); err != nil {
			t.Error(err)
		}
	}
}
