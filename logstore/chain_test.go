package logstore

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"testing"
)

// chainedLog is a log that the test opens again and again, and the log's directory.
type chainedLog struct {
	*Log
	t   *testing.T
	dir string
}

func (c *chainedLog) open() {
	c.t.Helper()
	l, err := OpenLog(nil, c.dir, sampleHeader(c.t), 0)
	if err != nil {
		c.t.Fatal(err)
	}
	c.Log = l
}

func chain(t *testing.T) *chainedLog {
	c := &chainedLog{t: t, dir: t.TempDir()}
	c.open()
	return c
}

func (c *chainedLog) must(err error) {
	c.t.Helper()
	if err != nil {
		c.t.Fatal(err)
	}
}

// row appends one row.
func (c *chainedLog) row() {
	c.t.Helper()
	b := &Block{Incarnation: sampleIncarnation, First: c.Next(Events, 0), Events: make([]Event, 1)}
	c.must(c.Append(b))
}

// segments returns the segments in a directory.
func (c *chainedLog) segments(dir string) []Segment {
	c.t.Helper()
	segments, err := Segments(dir)
	c.must(err)
	return segments
}

// report returns the report on the log in a directory.
func (c *chainedLog) report(dir string) Report {
	c.t.Helper()
	r := ReadLog(c.segments(dir))
	if _, _, err := drainBlocks(r.Next); err != nil {
		c.t.Fatal(err)
	}
	return r.Report()
}

// The end of a sealed segment may promise another segment. A writer dies after it has sealed such a
// segment, and before it begins the promised one. The next writer begins the promised segment,
// whatever else it does.
func TestDeathBetweenSegments(t *testing.T) {
	away := t.TempDir()
	for name, act := range map[string]func(c *chainedLog){
		"append": func(c *chainedLog) { c.row(); c.must(c.Seal()) },
		"seal":   func(c *chainedLog) { c.must(c.Seal()) },
		"move":   func(c *chainedLog) { c.must(c.Move(away)) },
		"enter":  func(c *chainedLog) { c.must(c.Enter("later", 1, 1, 2)); c.must(c.Seal()) },
	} {
		c := chain(t)
		c.row()
		c.must(c.rotate(GoesOn))
		gone := []Break{{From: 1, To: 2, More: true}}
		if r := c.report(c.dir); r.Whole() || !slices.Equal(r.Chain, gone) {
			t.Errorf("%s: before anybody goes on: %+v", name, r)
		}
		c.open()
		act(c)
		want := Ended
		if name == "move" {
			want = Moved
		}
		if r := c.report(c.dir); !r.Whole() || r.Then != want {
			t.Errorf("%s: %+v", name, r)
		}
	}
}

// A log moves to another directory. If the writer dies after it has left the first directory, and
// before it has begun a segment in the second, the next writer continues in the second.
func TestDeathOnTheWay(t *testing.T) {
	c := chain(t)
	c.row()
	if err := c.Move(filepath.Join(c.dir, "no", "such")); !errors.Is(err, fs.ErrNotExist) {
		t.Fatal(err)
	}
	c.open()
	if !c.Moved() {
		t.Fatal("it does not know that it was to move")
	}
	away := t.TempDir()
	c.must(c.Move(away))
	if c.Moved() {
		t.Error("it is there, and says that it is on the way")
	}
	c.row()
	c.must(c.Seal())
	if r := c.report(c.dir); !r.Whole() || r.Then != Moved {
		t.Errorf("where it was: %+v", r)
	}
	if r := c.report(away); !r.Whole() || r.Then != Ended || r.Rows[0].Rows != 1 {
		t.Errorf("where it is: %+v", r)
	}
	if h := c.header; h.Part != 1 {
		t.Errorf("its part begins with segment %d, want 1", h.Part)
	}
}

// A log that comes back to a directory begins a new part there. The segments between the two parts
// are in another directory, so they are not reported as missing. A lost beginning of a part is
// reported.
func TestLogThatComesBack(t *testing.T) {
	c := chain(t)
	away := t.TempDir()
	c.row()
	c.must(c.Move(away))
	c.row()
	c.must(c.Move(c.dir))
	c.row()
	c.must(c.rotate(GoesOn))
	c.row()
	c.must(c.Seal())
	breaks := func() []Break {
		all, err := CheckChain(c.segments(c.dir))
		c.must(err)
		return all
	}
	if all := breaks(); len(all) > 0 {
		t.Errorf("nothing is gone: %v", all)
	}
	c.must(os.Remove(c.segments(c.dir)[1].Path))
	if all := breaks(); !slices.Equal(all, []Break{{From: 2, To: 3}}) {
		t.Errorf("segment 2 is gone: %v", all)
	}
}

// If segments are written after the caller listed the log's segments, they are not reported as
// missing.
func TestSegmentsListedBeforeTheNext(t *testing.T) {
	c := chain(t)
	c.row()
	listed := c.segments(c.dir)
	c.must(c.rotate(GoesOn))
	c.row()
	defer c.Close()
	if breaks, err := CheckChain(listed); err != nil || len(breaks) > 0 {
		t.Errorf("%v, %v", breaks, err)
	}
}

// A log of version 1 continues in the present version, in a new segment. That segment contains the
// number of the log's first segment.
func TestOldLogGoesOn(t *testing.T) {
	for _, sealed := range []bool{true, false} {
		c := &chainedLog{t: t, dir: t.TempDir()}
		data, err := os.ReadFile(filepath.Join("testdata", "v1-compressed.cplog"))
		c.must(err)
		if !sealed {
			data = data[:len(data)-endSize]
		}
		old := filepath.Join(c.dir, SegmentName(mustName(t, "map#3/start"), sampleIncarnation, 0))
		c.must(os.WriteFile(old, data, 0o600))
		if r := c.report(c.dir); !r.Whole() || r.Sealed != sealed || r.Then != Unsaid {
			t.Errorf("sealed %v, alone: %+v", sealed, r)
		}
		c.open()
		c.row()
		c.must(c.Seal())
		if r := c.report(c.dir); !r.Whole() || r.Then != Ended || len(c.segments(c.dir)) != 2 {
			t.Errorf("sealed %v, gone on with: %+v", sealed, r)
		}
		if f := checkFile(t, old); !f.Sealed || f.Then != Unsaid {
			t.Errorf("sealed %v, the old file: %+v", sealed, f)
		}
		c.must(os.Remove(old))
		if r := c.report(c.dir); r.Whole() || !slices.Equal(r.Chain, []Break{{From: 0, To: 1}}) {
			t.Errorf("sealed %v, without its beginning: %+v", sealed, r)
		}
	}
}

// Salvage rewrites a segment. The new file can take the old file's place in the log.
func TestSalvagedSegmentInItsPlace(t *testing.T) {
	c := chain(t)
	for range 3 {
		c.row()
		c.must(c.rotate(GoesOn))
	}
	c.must(c.Seal())
	must := c.segments(c.dir)
	c.must(ExtendManifest(c.dir, nil))
	manifest, err := ReadManifest(c.dir)
	c.must(err)
	for i := range must {
		path := must[i].Path
		data, err := os.ReadFile(path)
		c.must(err)
		data[len(data)-8] ^= 1 // a byte of the end
		c.must(os.WriteFile(path, data, 0o600))
		if r := c.report(c.dir); r.Whole() {
			t.Fatalf("segment %d: its damage is not noticed: %+v", i, r)
		}
		from, err := os.Open(path)
		c.must(err)
		defer from.Close()
		_, err = Salvage(from, path, path+".salvaged", Header{})
		c.must(err)
		c.must(os.Rename(path+".salvaged", path))
		if r := c.report(c.dir); !r.Whole() || !r.Sealed {
			t.Errorf("segment %d: salvaged: %+v", i, r)
		}
	}
	if departed, err := manifest.Check(c.dir); err != nil || len(departed) > 0 {
		t.Errorf("the manifest does not know of salvage: %v, %v", departed, err)
	}
}
