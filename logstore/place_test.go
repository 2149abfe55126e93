package logstore

import (
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/cloudprofiler/cloudprofiler/channel"
)

// A drop that declares rows missing moves Log.Next past these rows. Next keeps that value, in
// whatever way the log is opened again. Otherwise a writer would declare the same rows missing
// twice.
func TestDropsInSequenceMoveTheLogOn(t *testing.T) {
	for _, again := range []string{"resume", "sealed", "rotated"} {
		dir := t.TempDir()
		open := func() *Log {
			l, err := OpenLog(nil, dir, sampleHeader(t), 0)
			if err != nil {
				t.Fatal(err)
			}
			return l
		}
		l := open()
		appendRows := func(b *Block) {
			t.Helper()
			b.Incarnation, b.Shard, b.First = sampleIncarnation, 2, l.Next(b.Kind(), 2)
			if err := l.Append(b); err != nil {
				t.Fatal(err)
			}
		}
		drops := func(reason Reason, at, count uint64) *Block {
			return &Block{
				Drops: []Drop{{Of: uint64(Events), Reason: uint64(reason), At: at, Count: count}},
			}
		}
		check := func(want uint64) {
			t.Helper()
			if got := l.Next(Events, 2); got != want {
				t.Fatalf("%s: next row %d, want %d", again, got, want)
			}
		}
		appendRows(&Block{Events: make([]Event, 10)})
		appendRows(drops(NeverWritten, 10, 3))
		check(13)
		appendRows(drops(RingFull, 13, 100)) // such rows have no sequence numbers
		appendRows(drops(Damaged, 20, 5))    // the rows before 20 may still come
		check(13)
		appendRows(&Block{Events: make([]Event, 4)})
		check(17)
		appendRows(drops(Unread, 17, 2))
		switch again {
		case "resume":
			l.Close()
			l = open()
		case "sealed":
			if err := l.Seal(); err != nil {
				t.Fatal(err)
			}
			l = open()
		case "rotated":
			if err := l.rotate(GoesOn); err != nil {
				t.Fatal(err)
			}
		}
		check(19)
		if got := l.Next(Drops, 2); got != 4 {
			t.Errorf("%s: %d drops, want 4", again, got)
		}
		appendRows(&Block{Events: make([]Event, 1)})
		if err := l.Seal(); err != nil {
			t.Fatal(err)
		}
		segments, _ := Segments(dir)
		r := ReadLog(segments)
		if _, _, err := drainBlocks(r.Next); err != nil {
			t.Fatal(err)
		}
		for _, a := range r.Report().Rows {
			if a.Kind == Events && (a.Rows != 15 || a.Dropped[NeverWritten] != 3 ||
				a.Dropped[Unread] != 2 || a.Dropped[RingFull] != 100) {
				t.Errorf("%s: %+v", again, a)
			}
		}
	}
}

func TestSegmentsOfOneRing(t *testing.T) {
	var all []Segment
	names := []string{"a/x", "a#1/x", "b/x"}
	dir := t.TempDir()
	for _, text := range names {
		for i := range byte(3) {
			for n := range 2 + int(i) {
				path := filepath.Join(dir, SegmentName(mustName(t, text), Incarnation{i}, n))
				if err := os.WriteFile(path, nil, 0o600); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
	all, err := Segments(dir)
	if err != nil || len(all) != 27 {
		t.Fatalf("%d segments, %v", len(all), err)
	}
	for _, text := range names {
		for i := range byte(4) {
			got := SegmentsOf(all, mustName(t, text), Incarnation{i})
			want := 2 + int(i)
			if i == 3 {
				want = 0
			}
			if len(got) != want {
				t.Errorf("%s, %d: %d segments, want %d", text, i, len(got), want)
			}
			for n, s := range got {
				if s.Number != n || s.Channel.String() != text ||
					s.Incarnation != (Incarnation{i}) {
					t.Errorf("%s, %d: segment %d is %+v", text, i, n, s)
				}
			}
		}
	}
}

func TestPlainBlock(t *testing.T) {
	path := filepath.Join(t.TempDir(), "x"+Suffix)
	w, err := Create(nil, path, sampleHeader(t))
	if err != nil {
		t.Fatal(err)
	}
	size := w.Size()
	b := &Block{Incarnation: sampleIncarnation, Plain: true, Events: make([]Event, 100)}
	if err := w.Append(b); err != nil {
		t.Fatal(err)
	}
	if got := w.Size() - size; got != BlockOverhead+16*100 {
		t.Errorf("a plain block of 100 events takes %d bytes, want %d", got, BlockOverhead+16*100)
	}
	b = &Block{Incarnation: sampleIncarnation, First: 100, Events: make([]Event, 100)}
	if err := w.Append(b); err != nil {
		t.Fatal(err)
	}
	if err := w.Seal(); err != nil {
		t.Fatal(err)
	}
	file, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	report, err := Check(file, path)
	if err != nil || !report.Whole() || report.Rows[0].Rows != 200 {
		t.Errorf("%+v, %v", report, err)
	}
}

func TestCursorOfOneKind(t *testing.T) {
	path := filepath.Join(t.TempDir(), "x"+Suffix)
	w, err := Create(nil, path, sampleHeader(t))
	if err != nil {
		t.Fatal(err)
	}
	for i := range uint64(10) {
		blocks := []*Block{
			{Incarnation: sampleIncarnation, First: i, Events: []Event{{i, i}}},
			{
				Incarnation: sampleIncarnation, First: i,
				Transitions: []Transition{
					{From: i, Generation: i, Handler: uint64(channel.Identity)},
				},
			},
		}
		for _, b := range blocks {
			if err := w.Append(b); err != nil {
				t.Fatal(err)
			}
		}
	}
	w.Close()
	f, err := OpenFile(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	n := uint64(0)
	for c := f.Of(Transitions); ; n++ {
		b, err := c.Next()
		if err == io.EOF {
			break
		}
		if err != nil || len(b.Transitions) != 1 || b.First != n {
			t.Fatalf("%+v, %v", b, err)
		}
	}
	if n != 10 {
		t.Errorf("%d transitions, want 10", n)
	}
	last := f.Last(Transitions)
	if b, err := last.Next(); err != nil || b.First != 9 || len(b.Transitions) != 1 {
		t.Errorf("the last is %+v, %v", b, err)
	}
	if b, err := last.Next(); err != io.EOF {
		t.Errorf("behind the last is %+v, %v", b, err)
	}
}

func TestRemovedSegmentsAreCounted(t *testing.T) {
	dir := t.TempDir()
	// A limit of one byte makes each block after the first begin a segment.
	l, err := OpenLog(nil, dir, sampleHeader(t), 1)
	if err != nil {
		t.Fatal(err)
	}
	for i := range uint64(4) {
		if err := l.Append(&Block{Incarnation: sampleIncarnation, First: i,
			Events: make([]Event, 1)}); err != nil {
			t.Fatal(err)
		}
		segments, _ := Segments(dir)
		if i < 3 {
			os.Remove(segments[len(segments)-1].Path)
		}
	}
	if l.Removed() != 3 || l.header.Segment != 3 {
		t.Errorf("%d removed, in segment %d, want 3 and 3", l.Removed(), l.header.Segment)
	}
}
