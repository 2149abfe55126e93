package logstore

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/cloudprofiler/cloudprofiler/internal/proof"
	"github.com/cloudprofiler/cloudprofiler/internal/seed"
)

// damagedDirectory is the directory of a run's logs, which a test damages in some way.
type damagedDirectory struct {
	t     *testing.T
	rng   *rand.Rand
	dir   string
	other string // the directory of another run, with other parts of the same logs
	files []string
}

func (h *damagedDirectory) check(err error) {
	h.t.Helper()
	if err != nil {
		h.t.Fatal(err)
	}
}

func (h *damagedDirectory) read(path string) []byte {
	data, err := os.ReadFile(path)
	h.check(err)
	return data
}

func (h *damagedDirectory) write(path string, data []byte) {
	h.check(os.WriteFile(path, data, 0o600))
}

// randomFile returns a random file of the damaged log.
func (h *damagedDirectory) randomFile() string { return h.files[h.rng.IntN(len(h.files))] }

// rewriteFile rewrites a file.
func (h *damagedDirectory) rewriteFile(with func(data []byte) []byte) {
	path := h.randomFile()
	h.write(path, with(h.read(path)))
}

// swapNames exchanges the names of two files.
func (h *damagedDirectory) swapNames(a, b string) {
	x, y := h.read(a), h.read(b)
	h.write(a, y)
	h.write(b, x)
}

// fileOfOtherRun returns a random log file from h.other, the directory of another run.
func (h *damagedDirectory) fileOfOtherRun() string {
	segments, err := Segments(h.other)
	h.check(err)
	return segments[h.rng.IntN(len(segments))].Path
}

// segmentName returns the name of the damaged log's segment with the given number, whether or not
// that file exists.
func (h *damagedDirectory) segmentName(number int) string {
	s, _ := ParseSegment(h.files[0])
	return filepath.Join(h.dir, SegmentName(s.Channel, s.Incarnation, number))
}

// harms are ways to damage a log.
var harms = map[string]func(h *damagedDirectory){
	"bit flip": func(h *damagedDirectory) {
		h.rewriteFile(func(b []byte) []byte {
			b[h.rng.IntN(len(b))] ^= 1 << h.rng.IntN(8)
			return b
		})
	},
	"bytes overwritten": func(h *damagedDirectory) {
		h.rewriteFile(func(b []byte) []byte {
			at := h.rng.IntN(len(b))
			for i := at; i < min(len(b), at+1+h.rng.IntN(500)); i++ {
				b[i] = byte(h.rng.Uint32())
			}
			return b
		})
	},
	"cut": func(h *damagedDirectory) {
		h.rewriteFile(func(b []byte) []byte { return b[:h.rng.IntN(len(b))] })
	},
	"cut between blocks": func(h *damagedDirectory) {
		h.rewriteFile(func(b []byte) []byte {
			header, blocks, _ := blockSpans(h.t, b)
			cuts := []int{header.to}
			for _, s := range blocks {
				cuts = append(cuts, s.to)
			}
			return b[:cuts[h.rng.IntN(len(cuts))]]
		})
	},
	"insertion": func(h *damagedDirectory) {
		h.rewriteFile(func(b []byte) []byte {
			return slices.Insert(b, h.rng.IntN(len(b)), make([]byte, 1+h.rng.IntN(300))...)
		})
	},
	"copy": func(h *damagedDirectory) {
		h.rewriteFile(func(b []byte) []byte {
			from := h.rng.IntN(len(b))
			to := from + h.rng.IntN(len(b)-from)
			return slices.Insert(b, h.rng.IntN(len(b)), slices.Clone(b[from:to])...)
		})
	},
	"block left out": func(h *damagedDirectory) {
		h.rewriteFile(func(b []byte) []byte {
			_, blocks, _ := blockSpans(h.t, b)
			if len(blocks) == 0 {
				return b
			}
			s := blocks[h.rng.IntN(len(blocks))]
			return slices.Delete(b, s.from, s.to)
		})
	},
	"first segment removed": func(h *damagedDirectory) { h.check(os.Remove(h.files[0])) },
	"last segment removed": func(h *damagedDirectory) {
		h.check(os.Remove(h.files[len(h.files)-1]))
	},
	"any segment removed": func(h *damagedDirectory) { h.check(os.Remove(h.randomFile())) },
	"some segments removed": func(h *damagedDirectory) {
		for _, f := range h.files {
			if h.rng.IntN(2) == 0 {
				h.check(os.Remove(f))
			}
		}
	},
	"log removed": func(h *damagedDirectory) {
		for _, f := range h.files {
			h.check(os.Remove(f))
		}
	},
	"swapped with another log's": func(h *damagedDirectory) {
		segments, err := Segments(h.dir)
		h.check(err)
		h.swapNames(h.randomFile(), segments[h.rng.IntN(len(segments))].Path)
	},
	"swapped with another run's": func(h *damagedDirectory) {
		h.swapNames(h.randomFile(), h.fileOfOtherRun())
	},
	"replaced by another run's": func(h *damagedDirectory) {
		h.write(h.randomFile(), h.read(h.fileOfOtherRun()))
	},
	"swapped within the log": func(h *damagedDirectory) {
		h.swapNames(h.randomFile(), h.randomFile())
	},
	"duplicated under its number": func(h *damagedDirectory) {
		h.write(h.randomFile(), h.read(h.randomFile()))
	},
	"duplicated under a new number": func(h *damagedDirectory) {
		h.write(h.segmentName(len(h.files)+h.rng.IntN(20)), h.read(h.randomFile()))
	},
	"another run's added": func(h *damagedDirectory) {
		from := h.fileOfOtherRun()
		h.write(filepath.Join(h.dir, filepath.Base(from)), h.read(from))
	},
	"renamed": func(h *damagedDirectory) {
		h.check(os.Rename(h.randomFile(), h.segmentName(20+h.rng.IntN(20))))
	},
	"emptied": func(h *damagedDirectory) { h.write(h.randomFile(), nil) },
}

// damagedLogs writes two logs of random length. Each log extends over several runs: it begins in
// the first run's directory, continues in each next one, and ends in the last. The segments that
// were written during a run stay in the directory of that run. damagedLogs returns the rows of the
// first log, by directory.
func damagedLogs(t *testing.T, rng *rand.Rand, dirs []string, sealed bool) []map[rowKey]rowValue {
	rows := make([]map[rowKey]rowValue, len(dirs))
	for d := range dirs {
		rows[d] = map[rowKey]rowValue{}
	}
	for i, name := range []string{"map#3/start", "map#4/start"} {
		h := sampleHeader(t)
		h.Channel, h.Incarnation = mustName(t, name), Incarnation{byte(i)}
		l, err := OpenLog(nil, dirs[0], h, 600+rng.Int64N(3000))
		if err != nil {
			t.Fatal(err)
		}
		for d, dir := range dirs {
			if d > 0 {
				if err := l.Move(dir); err != nil {
					t.Fatal(err)
				}
			}
			for range 1 + rng.IntN(40) {
				b := &Block{Incarnation: h.Incarnation, Shard: rng.IntN(2)}
				b.Plain = rng.IntN(2) == 0
				for range 1 + rng.IntN(40) {
					b.Events = append(b.Events, Event{rng.Uint64() >> 40, rng.Uint64()})
				}
				b.First = l.Next(Events, b.Shard)
				if err := l.Append(b); err != nil {
					t.Fatal(err)
				}
				if i == 0 {
					rowsOf(b, rows[d])
				}
				// The agent is killed, and another agent continues the log.
				if rng.IntN(20) == 0 {
					if err := l.Close(); err != nil {
						t.Fatal(err)
					}
					if l, err = OpenLog(nil, dir, h, l.limit); err != nil {
						t.Fatal(err)
					}
				}
			}
		}
		if sealed {
			err = l.Seal()
		} else {
			err = l.Close()
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return rows
}

// Whatever happens to the files of a run, either readers notice it, or they return exactly the
// right rows. Readers need the manifest only in three cases: the log was not sealed, none of its
// segments is left, or files of the same log come from another run.
func TestDamageIsNoticedOrHarmless(t *testing.T) {
	if unnoticed := damageLogs(t, 5*len(harms)); unnoticed > 0 {
		t.Errorf("%d damaged logs are not noticed", unnoticed)
	}
}

// TestBarDamagedLogs does what TestDamageIsNoticedOrHarmless does, for many more logs.
func TestBarDamagedLogs(t *testing.T) {
	logs := 300
	if proof.Begin(t) == proof.Full {
		logs = 6000
	}
	proof.Check(t, proof.Bar{
		Name:   fmt.Sprintf("unnoticed among %d logs, damaged in %d ways", logs, len(harms)),
		Figure: float64(damageLogs(t, logs)), Unit: "logs",
	})
}

// damageLogs damages the given number of logs, and uses the ways of damage (harms) in turn. It
// returns the number of logs in which no reader noticed the damage.
func damageLogs(t *testing.T, logs int) (unnoticed int) {
	rng := seed.Random(t)
	names := slices.Sorted(maps.Keys(harms))
	for n := range logs {
		if what := damageLog(t, rng, names[n%len(names)]); what != "" {
			t.Log(what)
			unnoticed++
		}
	}
	return unnoticed
}

// damageLog damages a log in one way. It returns a description of what readers failed to notice, or
// "".
func damageLog(t *testing.T, rng *rand.Rand, name string) (unnoticed string) {
	sealed := rng.IntN(4) > 0
	parent, err := os.MkdirTemp("", "damage")
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(parent)
	var dirs []string
	for i := range 3 {
		dirs = append(dirs, filepath.Join(parent, fmt.Sprint(i)))
		if err := os.Mkdir(dirs[i], 0o700); err != nil {
			t.Fatal(err)
		}
	}
	rows := damagedLogs(t, rng, dirs, sealed)
	which := rng.IntN(len(dirs))
	err = ExtendManifest(dirs[which], nil)
	var manifest Manifest
	if err == nil {
		manifest, err = ReadManifest(dirs[which])
	}
	if err != nil {
		t.Fatal(err)
	}
	h := &damagedDirectory{t: t, rng: rng, dir: dirs[which], other: dirs[(which+1+rng.IntN(2))%3]}
	read := func() (map[rowKey]rowValue, Report) {
		segments, err := Segments(h.dir)
		if err != nil {
			t.Fatal(err)
		}
		segments = SegmentsOf(segments, mustName(t, "map#3/start"), Incarnation{0})
		h.files = nil
		for _, s := range segments {
			h.files = append(h.files, s.Path)
		}
		r := ReadLog(segments)
		defer r.Close()
		got, _, err := drainBlocks(r.Next)
		if err != nil {
			t.Fatal(err)
		}
		return got, r.Report()
	}
	want := Ended
	switch {
	case which < 2:
		want = Moved
	case !sealed:
		want = Unsaid
	}
	got, report := read()
	departed, err := manifest.Check(h.dir)
	if err != nil || len(departed) > 0 || !report.Whole() || report.Then != want ||
		!maps.Equal(got, rows[which]) {
		t.Fatalf("before any damage: %v, error %v, report %+v", departed, err, report)
	}
	before := len(h.files)
	harms[name](h)
	got, report = read()
	if maps.Equal(got, rows[which]) {
		return ""
	}
	if departed, err = manifest.Check(h.dir); err != nil {
		t.Fatal(err)
	}
	noticed := !report.Whole() || report.Then != want
	what := fmt.Sprintf("%s, sealed %v, part %d of %d segments: %d rows, %d written",
		name, sealed, which, before, len(got), len(rows[which]))
	if !noticed && len(departed) == 0 {
		return fmt.Sprintf("%s: nothing is noticed: %+v", what, report)
	}
	more := true // true if all rows of this part were read, and no rows of other logs
	for key, value := range rows[which] {
		more = more && got[key] == value
	}
	for key, value := range got {
		more = more && slices.ContainsFunc(rows, func(of map[rowKey]rowValue) bool {
			return of[key] == value
		})
	}
	if !noticed && !more && want != Unsaid && len(h.files) > 0 {
		return fmt.Sprintf("%s: noticed by the manifest alone: %+v", what, report)
	}
	return ""
}
