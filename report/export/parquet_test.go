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

// anEvent and aDuration have another value in each field, and the ends of what a column takes.
var (
	anEvent = analysis.EventRow{
		ID: 1<<64 - 1, Tuple: 2, At: tscratio.Interval{Lo: 1 << 63, Hi: 1<<63 + 4},
		Node: "n", Channel: "a#5/p", Point: "a/p", Verdict: tscratio.Suspect,
	}
	aDuration = analysis.DurationRow{
		ID: 6, Tuple: 7, From: "a/p", To: "b/q", FromNode: "n", ToNode: "m", Kind: "transfer",
		Duration: tscratio.Duration{
			Elapsed: tscratio.Elapsed{Lo: -8, Hi: 9}, Scenario: tscratio.Direct,
			Verdict: tscratio.Suspect,
		},
	}
)

// writeParquet writes so many copies of both rows.
func writeParquet(w []io.Writer, rows int) error {
	s, err := newParquetSink(w)
	if err != nil {
		return err
	}
	for range rows {
		if err := errors.Join(s.event(&anEvent), s.duration(&aDuration)); err != nil {
			return err
		}
	}
	return s.finish(&analysis.Answer{Run: "r"})
}

// Columns have the names and types of FORMAT.md, and each holds what is its own.
func TestParquetRows(t *testing.T) {
	var events, durations bytes.Buffer
	if err := writeParquet([]io.Writer{&events, &durations}, 1); err != nil {
		t.Fatal(err)
	}
	for _, table := range []struct {
		file        []byte
		schema, row string
	}{
		{events.Bytes(), `message events {
	required int64 tuple_id (INT(64,false));
	required int64 way (INT(64,false));
	required int64 lo_cycles (INT(64,false));
	required int64 hi_cycles (INT(64,false));
	required binary node (STRING);
	required binary channel (STRING);
	required binary point (STRING);
	required binary verdict (STRING);
}`, "18446744073709551615 2 9223372036854775808 9223372036854775812 n a#5/p a/p suspect"},
		{durations.Bytes(), `message durations {
	required int64 tuple_id (INT(64,false));
	required int64 way (INT(64,false));
	required binary from_point (STRING);
	required binary to_point (STRING);
	required binary from_node (STRING);
	required binary to_node (STRING);
	required binary kind (STRING);
	required int64 lo_cycles (INT(64,true));
	required int64 hi_cycles (INT(64,true));
	required binary scenario (STRING);
	required binary verdict (STRING);
}`, "6 7 a/p b/q n m transfer -8 9 direct suspect"},
	} {
		f, err := parquet.OpenFile(bytes.NewReader(table.file), int64(len(table.file)))
		if err != nil {
			t.Fatal(err)
		}
		if got := f.Schema().String(); got != table.schema {
			t.Errorf("schema\n%s\nwant\n%s", got, table.schema)
		}
		rows := make([]parquet.Row, 2)
		r := parquet.NewReader(f)
		n, err := r.ReadRows(rows)
		if n != 1 || err != nil && err != io.EOF {
			t.Fatalf("%d rows, %v", n, err)
		}
		var words []string
		for i, v := range rows[0] {
			if f.Schema().Fields()[i].Type().String() == "INT(64,false)" {
				words = append(words, fmt.Sprint(v.Uint64()))
			} else {
				words = append(words, v.String())
			}
		}
		if got := strings.Join(words, " "); got != table.row {
			t.Errorf("the row is %q, want %q", got, table.row)
		}
		r.Close()
	}
}

// A row group is what an engine reads at once, so its size is promised. A run may have no rows.
func TestParquetRowGroups(t *testing.T) {
	for rows, want := range map[int][]int64{0: nil, 1: {1}, 2*131_072 + 3: {131_072, 131_072, 3}} {
		var events, durations bytes.Buffer
		if err := writeParquet([]io.Writer{&events, &durations}, rows); err != nil {
			t.Fatal(err)
		}
		for _, file := range [][]byte{events.Bytes(), durations.Bytes()} {
			f, err := parquet.OpenFile(bytes.NewReader(file), int64(len(file)))
			if err != nil {
				t.Fatal(err)
			}
			var sizes []int64
			for _, g := range f.RowGroups() {
				sizes = append(sizes, g.NumRows())
			}
			if !slices.Equal(sizes, want) {
				t.Errorf("%d rows are in groups of %d, want %d", rows, sizes, want)
			}
		}
	}
}

var errFull = errors.New("no space")

// small takes so many bytes, and no more.
type small struct{ left int }

func (s *small) Write(b []byte) (int, error) {
	if len(b) > s.left {
		n := s.left
		s.left = 0
		return n, errFull
	}
	s.left -= len(b)
	return len(b), nil
}

// A disk that is full fails the export, whichever byte is the first that it does not take.
func TestParquetTellsThatTheDiskIsFull(t *testing.T) {
	const rows = 131_072 + 3
	var events, durations bytes.Buffer
	if err := writeParquet([]io.Writer{&events, &durations}, rows); err != nil {
		t.Fatal(err)
	}
	n := events.Len()
	for _, left := range []int{0, 3, 4, 1000, n / 2, n - 5, n - 1} {
		err := writeParquet([]io.Writer{&small{left}, io.Discard}, rows)
		if !errors.Is(err, errFull) || !strings.Contains(err.Error(), `table "events"`) {
			t.Errorf("of %d bytes %d can be written: %v", n, left, err)
		}
	}
	if err := writeParquet([]io.Writer{&small{n}, io.Discard}, rows); err != nil {
		t.Error(err)
	}
}
