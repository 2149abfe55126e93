package logstore

import (
	"io"
	"os"
	"slices"
	"testing"
)

// A Log fills several segments, is closed and opened again in between, and is read as one log.
func TestLogOfManySegments(t *testing.T) {
	dir := t.TempDir()
	var blocks []*Block
	l := (*Log)(nil)
	for i := range 200 {
		if i%17 == 0 {
			if l != nil {
				if err := l.Close(); err != nil {
					t.Fatal(err)
				}
			}
			var err error
			if l, err = OpenLog(nil, dir, sampleHeader(t), 2000); err != nil {
				t.Fatal(err)
			}
		}
		shard := i % 3
		b := &Block{Incarnation: sampleIncarnation, Shard: shard, First: l.Next(Events, shard)}
		if want := uint64(i / 3 * 20); b.First != want {
			t.Fatalf("block %d begins at %d, want %d", i, b.First, want)
		}
		for k := range 20 {
			b.Events = append(b.Events, Event{uint64(26 * (i*1000 + k*k)), uint64(i*i + k)})
		}
		if err := l.Append(b); err != nil {
			t.Fatal(err)
		}
		blocks = append(blocks, b)
	}
	if err := l.Seal(); err != nil {
		t.Fatal(err)
	}
	segments, err := Segments(dir)
	if err != nil || len(segments) < 5 {
		t.Fatalf("%d segments, error %v", len(segments), err)
	}
	r := ReadLog(segments)
	rows, damage, err := drainBlocks(r.Next)
	if err != nil || len(damage) > 0 {
		t.Fatal(err, damage)
	}
	diffRows(t, rows, rowsOfAll(t, blocks))
	if report := r.Report(); !report.Whole() || !report.Sealed {
		t.Errorf("%+v", report)
	}

	// If all segments of a log are sealed, the log continues in a new segment.
	l, err = OpenLog(nil, dir, sampleHeader(t), 2000)
	if err != nil || l.Next(Events, 0) != 67*20 {
		t.Fatalf("next %d, error %v", l.Next(Events, 0), err)
	}
	l.Close()

	// If a segment was removed, exactly its rows are missing.
	gone := segments[2]
	lost := checkSegment(t, gone.Path)
	os.Remove(gone.Path)
	r = ReadLog(slices.Delete(slices.Clone(segments), 2, 3))
	if _, damage, err = drainBlocks(r.Next); err != nil || len(damage) > 0 {
		t.Fatal(err, damage)
	}
	for _, a := range r.Report().Rows {
		if want := lost[a.Shard]; !slices.Equal(a.Missing, []Range{want}) {
			t.Errorf("shard %d: missing %v, want %v", a.Shard, a.Missing, want)
		}
	}
}

// checkSegment returns the range of rows of events that a segment has, by shard.
func checkSegment(t *testing.T, path string) map[int]Range {
	t.Helper()
	f, err := OpenFile(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	has := map[int]Range{}
	for c := f.All(); ; {
		b, err := c.Next()
		if err == io.EOF {
			return has
		}
		if err != nil {
			t.Fatal(err)
		}
		r, seen := has[b.Shard]
		if !seen {
			r.From = b.First
		}
		r.To = b.First + uint64(b.Len())
		has[b.Shard] = r
	}
}

func TestLogGoesOnWhenItsFileIsRemoved(t *testing.T) {
	dir := t.TempDir()
	l, err := OpenLog(nil, dir, sampleHeader(t), 0)
	if err != nil {
		t.Fatal(err)
	}
	appendRows := func(n int) {
		t.Helper()
		b := &Block{
			Incarnation: sampleIncarnation, First: l.Next(Events, 0), Events: make([]Event, n),
		}
		if err := l.Append(b); err != nil {
			t.Fatal(err)
		}
	}
	appendRows(10)
	if err := l.rotate(GoesOn); err != nil {
		t.Fatal(err)
	}
	appendRows(5)
	other := &Block{Incarnation: sampleIncarnation, Shard: 1, Events: make([]Event, 3)}
	if err := l.Append(other); err != nil { // no row of this shard will be left
		t.Fatal(err)
	}
	segments, _ := Segments(dir)
	os.Remove(segments[1].Path)
	appendRows(7)
	if err := l.Seal(); err != nil {
		t.Fatal(err)
	}
	segments, _ = Segments(dir)
	r := ReadLog(segments)
	if _, _, err := drainBlocks(r.Next); err != nil {
		t.Fatal(err)
	}
	if a := r.Report().Rows[1]; a.Shard != 1 || a.Rows != 0 ||
		!slices.Equal(a.Missing, []Range{{0, 3}}) {
		t.Errorf("%+v", a)
	}
	a := r.Report().Rows[0]
	if a.Rows != 17 || a.Next != 22 || !slices.Equal(a.Missing, []Range{{10, 15}}) {
		t.Errorf("%+v", a)
	}
}

func TestSegmentNamesReadBack(t *testing.T) {
	name := SegmentName(mustName(t, "a.b#12/c.d"), sampleIncarnation, 1234567)
	s, ok := ParseSegment("/x/" + name)
	if !ok || s.Number != 1234567 || s.Incarnation != sampleIncarnation ||
		s.Channel != mustName(t, "a.b#12/c.d") {
		t.Errorf("%q reads back as %+v, %v", name, s, ok)
	}
	for _, bad := range []string{
		"", ".cplog", "a.cplog", "a~b.00.000000.cplog", name + "x", "x" + Suffix,
		"a~b.0102030405060708090a0b0c0d0e0f1g.000000.cplog",
		"a~b.0102030405060708090a0b0c0d0e0f10.-00001.cplog",
	} {
		if s, ok := ParseSegment(bad); ok {
			t.Errorf("%q is taken for segment %+v", bad, s)
		}
	}
}
