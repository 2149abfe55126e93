package explore

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"hash/crc32"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cloudprofiler/cloudprofiler/analysis"
	"github.com/cloudprofiler/cloudprofiler/internal/seed"
	"github.com/cloudprofiler/cloudprofiler/internal/simrun"
	"github.com/cloudprofiler/cloudprofiler/runs"
)

// prepareAgain prepares a run, and returns what Prepare remarked.
func prepareAgain(t *testing.T, path string, o analysis.Options) string {
	t.Helper()
	dir, err := runs.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer dir.Close()
	said := ""
	x, err := Prepare(context.Background(), dir, o, noReport, func(why string) { said += why })
	if err != nil {
		t.Fatal(err)
	}
	if n := len(x.tuples); n == 0 {
		t.Error("the index has no tuples")
	}
	if err := x.Close(); err != nil {
		t.Error(err)
	}
	return said
}

// An index that fits its run is used again. A damaged index, or an index of other contents, is
// replaced, and Prepare says why.
func TestIndexIsMadeOnce(t *testing.T) {
	j := aJob(t, seed.Random(t), 3000)
	index := filepath.Join(j.path, "exports", IndexName)
	whole, err := os.ReadFile(index)
	if err != nil {
		t.Fatal(err)
	}
	write := func(data []byte) func() {
		return func() {
			if err := os.WriteFile(index, data, 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
	flipped := func(from int) []byte {
		data := bytes.Clone(whole)
		data[len(data)-from] ^= 1
		return data
	}
	run := filepath.Join(j.path, "run.yaml")
	other := analysis.Options{}
	other.Filter.IDs = [][2]uint64{{1 << 40, 1<<40 + 100}}
	for _, c := range []struct {
		name, says string
		do         func()
		o          analysis.Options
	}{
		{"nothing happened", "", func() {}, analysis.Options{}},
		{"no index", "made: this is done once", func() { os.Remove(index) }, analysis.Options{}},
		{"an empty index", "damaged", write(nil), analysis.Options{}},
		{"another's file", "damaged", write([]byte(strings.Repeat("x", 100))), analysis.Options{}},
		{"cut off", "damaged", write(whole[:len(whole)/2]), analysis.Options{}},
		{"damaged contents", "damaged", write(flipped(100)), analysis.Options{}},
		{"another version", "version", write(flipped(footerSize - 8)), analysis.Options{}},
		{"a changed run", "have changed", func() {
			if err := os.Chtimes(run, time.Time{}, time.Unix(1, 0)); err != nil {
				t.Fatal(err)
			}
		}, analysis.Options{}},
		{"other options", "have changed", func() {}, other},
		{"the same options", "", func() {}, other},
	} {
		c.do()
		if said := prepareAgain(t, j.path, c.o); !strings.Contains(said, c.says) ||
			(c.says == "") != (said == "") {
			t.Errorf("%s: it says %q, want %q", c.name, said, c.says)
		}
	}
}

// If several goroutines prepare one run at once, one of them makes the index, and all of them use
// it.
func TestIndexIsMadeByOne(t *testing.T) {
	j := aJob(t, seed.Random(t), 3000)
	if err := os.Remove(filepath.Join(j.path, "exports", IndexName)); err != nil {
		t.Fatal(err)
	}
	var made, waited atomic.Int32
	var group sync.WaitGroup
	for range 4 {
		group.Go(func() {
			dir, err := runs.Open(j.path)
			if err != nil {
				t.Error(err)
				return
			}
			defer dir.Close()
			x, err := Prepare(context.Background(), dir, analysis.Options{}, noReport,
				func(why string) {
					if strings.Contains(why, "waiting") {
						waited.Add(1)
					} else {
						made.Add(1)
					}
				})
			if err != nil {
				t.Error(err)
				return
			}
			if _, _, err := x.Find(j.all[0].id); err != nil {
				t.Error(err)
			}
			x.Close()
		})
	}
	group.Wait()
	if made.Load() != 1 || waited.Load() > 3 {
		t.Errorf("made %d times, %d waited", made.Load(), waited.Load())
	}
}

// A question that reads a damaged part of the index returns an error and no data.
func TestDamagedBlocks(t *testing.T) {
	j := aJob(t, seed.Random(t), 3000)
	index := filepath.Join(j.path, "exports", IndexName)
	data, err := os.ReadFile(index)
	if err != nil {
		t.Fatal(err)
	}
	span := j.spanOf(t, "source/send", "sink/recv")
	levels := j.span(span).levels
	data[levels[0][0].offset+5] ^= 4
	data[levels[len(levels)-1][0].counts] ^= 4
	data[j.tuples[0].offset+9] ^= 4
	if err := os.WriteFile(index, data, 0o600); err != nil {
		t.Fatal(err)
	}
	x := preparedIndex(t, j.path, analysis.Options{})
	_, err1 := x.Longest(span, x.whole(), 0, 1<<62)
	_, _, err2 := x.Find(j.all[0].id)
	_, err3 := x.Queue(span, x.whole())
	for i, err := range []error{err1, err2, err3} {
		if !errors.Is(err, errDamaged) {
			t.Errorf("question %d: %v, want errDamaged", i, err)
		}
	}
}

// If the analysis or the writing of a new index stops, the new index is removed and the old one
// stays.
func TestPrepareStops(t *testing.T) {
	j := aJob(t, seed.Random(t), 3000)
	index := filepath.Join(j.path, "exports", IndexName)
	before, err := os.Stat(index)
	if err != nil {
		t.Fatal(err)
	}
	dir, err := runs.Open(j.path)
	if err != nil {
		t.Fatal(err)
	}
	defer dir.Close()
	stop := errors.New("enough")
	for _, at := range []string{"reading logs", "joining tuples", "sorting by time",
		"sorting by id"} {
		ctx, cancel := context.WithCancelCause(context.Background())
		o := analysis.Options{Slowest: 3, Progress: func(_ float64, what string) {
			if what == at {
				cancel(stop)
			}
		}}
		if _, err := Prepare(ctx, dir, o, noReport, func(string) {}); !errors.Is(err, stop) {
			t.Errorf("stopped at %q: %v", at, err)
		}
		cancel(nil)
	}
	names, err := filepath.Glob(filepath.Join(j.path, "exports", "*"))
	after, err2 := os.Stat(index)
	if err != nil || err2 != nil || len(names) != 1 || !os.SameFile(before, after) {
		t.Errorf("left are %q, %v, %v", names, err, err2)
	}
}

// Even if the report's page cannot be made, the run can be explored.
func TestNoReport(t *testing.T) {
	j := aJob(t, seed.Random(t), 1000)
	dir, err := runs.Open(j.path)
	if err != nil {
		t.Fatal(err)
	}
	defer dir.Close()
	x, err := Prepare(context.Background(), dir, analysis.Options{Slowest: 2},
		func(*analysis.Answer) ([]byte, error) { return nil, errors.New("too large") },
		func(string) {})
	if err != nil {
		t.Fatal(err)
	}
	defer x.Close()
	if x.Meta.ReportAbsent != "too large" {
		t.Errorf("the page says %q", x.Meta.ReportAbsent)
	}
}

// An index may come from a stranger. Its checksums may all be right although its numbers are wrong.
// Even then, each question about it ends, with or without an error.
func TestForgedIndexes(t *testing.T) {
	seed.NotUnderRace(t, "TestIndexIsMadeOnce makes an index too")
	rng := seed.Random(t)
	j := aJob(t, rng, 3000)
	whole, err := os.ReadFile(filepath.Join(j.path, "exports", IndexName))
	if err != nil {
		t.Fatal(err)
	}
	read, rounds := 0, max(60, 300/seed.Share())
	for range rounds {
		data := bytes.Clone(whole)
		// spoil changes bytes of a section, and then sets the section's checksum to the right
		// value.
		spoil := func(s section) section {
			part := data[s.Offset : s.Offset+s.Length]
			for range 1 + rng.IntN(3) {
				part[rng.IntN(len(part))] = byte(rng.Uint32())
			}
			s.Sum = crc32.Checksum(part, castagnoli)
			return s
		}
		c := j.contents
		c.Tracks = slices.Clone(c.Tracks)
		track := &c.Tracks[rng.IntN(len(c.Tracks))]
		switch rng.IntN(5) {
		case 0:
			c.Tuples = spoil(c.Tuples)
		case 1:
			track.Sizes = []uint64{rng.Uint64() >> rng.UintN(64), 1}
		case 2:
			track.Nodes.Offset = rng.Uint64() >> rng.UintN(64)
		default:
			track.Nodes = spoil(track.Nodes)
		}
		w := &writer{w: new(bytes.Buffer), at: uint64(len(data))}
		if err := w.finish(&c); err != nil {
			t.Fatal(err)
		}
		data = append(data, w.w.(*bytes.Buffer).Bytes()...)
		x, err := readIndex(memoryFile{bytes.NewReader(data)}, int64(len(data)))
		if err != nil {
			continue
		}
		read++
		for i := range x.Meta.Lanes {
			x.Lanes([]int{i}, x.whole(), 100)
			x.Ended(i, x.whole())
		}
		for i := range x.Meta.Spans {
			x.Latency(i, x.whole(), 100)
			x.Spread(i, x.whole())
			x.Queue(i, x.whole())
			x.Longest(i, x.whole(), -100, 1<<40)
		}
		for _, tuple := range j.all[:20] {
			x.Find(tuple.id)
		}
	}
	if read < rounds/4 {
		t.Errorf("only %d forged indexes were read: too few to test", read)
	}
}

type memoryFile struct{ *bytes.Reader }

func (memoryFile) Close() error { return nil }

// FuzzBlocks decodes arbitrary bytes as blocks, as if their checksums were right.
func FuzzBlocks(f *testing.F) {
	i := item{track: 1, mid: 300, width: 5, lo: -2, hi: 7, id: 9, instance: 3, ended: 2}
	f.Add(appendItem(nil, &i, &item{}))
	p := path{[]event{{1, i.begin(), true, false}},
		[]duration{{2, -3, 4, 1, analysis.SurelyCritical, false}}}
	f.Add(p.append(nil))
	f.Add(appendTuple(nil, &tuple{20, 3, p.append(nil)}, &tuple{}))
	c := counts{}
	c.add(&i)
	f.Add(c.append(nil))
	f.Fuzz(func(t *testing.T, data []byte) {
		r, i := reader{data: data}, item{}
		for len(r.data) > 0 && !r.bad {
			if readItem(&r, &i); !r.bad && i.lo > i.hi {
				t.Fatalf("an item lasts from %d to %d", i.lo, i.hi)
			}
			if begin := i.begin(); !r.bad && begin.Mid() != i.mid && begin.Valid() {
				t.Fatalf("an item at %d lies in %v", i.mid, begin)
			}
		}
		r = reader{data: data}
		for row := (tuple{}); len(r.data) > 0 && !r.bad; {
			readTuple(&r, &row)
		}
		if p, ok := readPath(data, 5, 4); ok {
			for _, e := range p.events {
				if e.channel >= 5 || !e.at.Valid() {
					t.Fatalf("an event is %+v", e)
				}
			}
			for _, d := range p.durations {
				if d.span >= 4 || d.lo > d.hi {
					t.Fatalf("a duration is %+v", d)
				}
			}
		}
		h := new(histogram)
		readCounts(data, func(_ uint32, high bool, bucket int, n uint64) {
			h.count(high, bucket, n%1000)
		})
		if lo, hi := h.percentile(50); lo > hi && len(h.used) == 1 {
			t.Fatalf("the median is from %d to %d", lo, hi)
		}
	})
}

// A run with a single point has no span. The page gets an empty list of spans then.
func TestNoSpans(t *testing.T) {
	random, parent := seed.Random(t), t.TempDir()
	ch := simrun.Channel{Node: 0, Name: "source/send",
		Records: []simrun.Record{{Time: 2 * simrun.Hz, ID: 1}}}
	if err := simrun.Write(random, parent, "one", simrun.Nodes(random, 1),
		[]simrun.Channel{ch}); err != nil {
		t.Fatal(err)
	}
	x := preparedIndex(t, filepath.Join(parent, "one"), analysis.Options{})
	if text, err := json.Marshal(x.Meta); err != nil ||
		!strings.Contains(string(text), `"spans":[]`) || x.Meta.Tuples != 1 {
		t.Errorf("%v: %s", err, text)
	}
}
