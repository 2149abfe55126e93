package drain

import (
	"encoding/binary"
	"errors"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/cloudprofiler/cloudprofiler/handlers"
	"github.com/cloudprofiler/cloudprofiler/internal/reexec"
	"github.com/cloudprofiler/cloudprofiler/internal/seed"
	"github.com/cloudprofiler/cloudprofiler/logstore"
	"github.com/cloudprofiler/cloudprofiler/ring"
)

// patchFile writes into a ring's file, as another process can.
func patchFile(t *testing.T, path string, offset int64, b []byte) {
	t.Helper()
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, err := f.WriteAt(b, offset); err != nil {
		t.Fatal(err)
	}
}

func word(v uint64) []byte { return binary.NativeEndian.AppendUint64(nil, v) }

// These are places that a hostile program may overwrite: offsets in a ring of one shard, as in
// FORMAT.md of package ring.
const (
	atShard   = 4096
	atTail    = atShard
	atDropped = atShard + 8
	atDrops   = atShard + 16
	atJournal = atShard + 24
	atHead    = atShard + 128
)

// If a ring contains false values, or shrinks, the drainer sets it aside with the reason. The
// drainer still drains all other rings.
func TestBadRingsAmongHealthyOnes(t *testing.T) {
	// If somebody cuts a ring's file, its program dies when it next logs. Here the program is this
	// test, so the test closes the ring before the cut.
	cut := func(size int64) func(*testing.T, string) {
		return func(t *testing.T, path string) {
			if err := os.Truncate(path, size); err != nil {
				t.Fatal(err)
			}
		}
	}
	for _, test := range []struct {
		name   string
		damage func(t *testing.T, path string)
		want   error
		unread bool // the log must say which rows the drainer has not read
	}{
		{"cut to nothing", cut(0), ring.ErrShrunk, true},
		{"cut to the header", cut(4096), ring.ErrShrunk, true},
		{"cut within the records", cut(8192), ring.ErrShrunk, true},
		{"tail far ahead", func(t *testing.T, path string) {
			patchFile(t, path, atTail, word(1<<40))
		}, ring.ErrDamaged, true},
		{"tail beyond 63 bits", func(t *testing.T, path string) {
			patchFile(t, path, atTail, word(1<<63))
		}, ring.ErrDamaged, true},
		{"tail gone back", func(t *testing.T, path string) {
			patchFile(t, path, atTail, word(0))
		}, ring.ErrDamaged, true},
		{"head moved", func(t *testing.T, path string) {
			patchFile(t, path, atHead, word(650))
		}, ring.ErrDamaged, true},
		{"head ahead", func(t *testing.T, path string) {
			patchFile(t, path, atHead, word(1<<40))
		}, ring.ErrDamaged, true},
		{"many ranges of drops", func(t *testing.T, path string) {
			patchFile(t, path, atDrops, word(1<<40))
			patchFile(t, path, atDropped, word(1))
		}, ring.ErrDamaged, false},
		{"dropped events of no range", func(t *testing.T, path string) {
			patchFile(t, path, atDropped, word(1))
		}, ring.ErrDamaged, false},
		{"a long journal", func(t *testing.T, path string) {
			patchFile(t, path, atJournal, word(1<<40))
		}, ring.ErrDamaged, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			if test.want == ring.ErrShrunk && os.Getenv(reexec.EmulatorVariable) != "" {
				t.Skip("the emulator says of no bus error where it was")
			}
			r := newRig(t, Options{})
			bad := r.open("bad/x", handlers.Options{Policy: "drop", Buffer: "16KiB"})
			good := r.open("good/x", handlers.Options{Policy: "drop", Buffer: "16KiB"})
			r.runFor(2 * checkPeriod)
			const n = 600 // the ring has room for 1,024 records; the drainer writes these at once
			for i := range uint64(n) {
				bad.Log(i)
				good.Log(i)
			}
			r.advanceClock(DefaultPoll)
			for i := range uint64(100) { // these events still wait in the ring
				bad.Log(n + i)
				good.Log(n + i)
			}
			r.advanceClock(DefaultPoll)
			if test.want == ring.ErrShrunk {
				bad.Close()
			}
			test.damage(t, bad.Path())
			r.runFor(time.Second)
			// The drainer reads the ring's journal after it has changed the settings, and when the
			// program is gone.
			bad.Close()
			r.runFor(2 * time.Second)
			var reason error
			for _, c := range r.d.Stats().Rings {
				if c.Path == bad.Path() {
					reason = c.SetAside
				} else if c.SetAside != nil || c.Failures > 0 {
					t.Errorf("the healthy ring: %+v", c)
				}
			}
			if !errors.Is(reason, test.want) {
				t.Fatalf("set aside for %v, want %v", reason, test.want)
			}
			if len(r.noticed) != 1 || !errors.Is(r.noticed[0], test.want) {
				t.Errorf("noticed %v, want it once", r.noticed)
			}
			logs := readLogs(t, r.logs)
			logs["bad/x"].checkIntact(t)
			if uint64(len(logs["bad/x"].events[0])) < n || !logs["bad/x"].report.Sealed {
				t.Errorf("the bad ring's log has %d events, sealed %v",
					len(logs["bad/x"].events[0]), logs["bad/x"].report.Sealed)
			}
			if lost := logs["bad/x"].droppedRows(logstore.Unread); test.unread && lost != 100 {
				t.Errorf("%d rows are said to be unread, want 100", lost)
			}
			logs["good/x"].checkIntact(t)
			wantIDs(t, logs["good/x"].events[0], n+100)
		})
	}
}

func TestHalfAPairIsDamage(t *testing.T) {
	r := newRig(t, Options{})
	r.d.o.Notify = func(error) { // a query of the stats while the drainer sets the ring aside
		if s := r.d.Stats(); len(s.Rings) != 1 {
			t.Errorf("it is counted %d times", len(s.Rings))
		}
	}
	c := r.open("a/b", handlers.Options{Handler: "link"})
	c.Link(1, 2)
	r.advanceClock(DefaultPoll)
	patchFile(t, c.Path(), atTail, word(3))
	r.runFor(2 * time.Second)
	if s := r.d.Stats().Rings[0]; !errors.Is(s.SetAside, ring.ErrDamaged) {
		t.Errorf("%+v", s)
	}
}

// Whatever random bytes somebody writes into a ring's first pages, the drainer lives and the log of
// another ring is complete. The damaged ring's data reach only its own log, which stays readable.
func TestRandomDamage(t *testing.T) {
	rng := rand.New(rand.NewPCG(seed.Of(t), 2))
	rounds := 200
	if testing.Short() {
		rounds = 30
	}
	aside := 0
	for range rounds {
		r := newRig(t, Options{})
		bad := r.open("bad/x", handlers.Options{Policy: "drop", Buffer: "16KiB"})
		good := r.open("good/x", handlers.Options{Policy: "drop", Buffer: "16KiB"})
		for i := range uint64(600) {
			bad.Log(i)
			good.Log(i)
		}
		if rng.IntN(2) == 0 {
			r.advanceClock(DefaultPoll)
		}
		for range 1 + rng.IntN(20) {
			b := make([]byte, 8)
			if rng.IntN(2) == 0 {
				binary.NativeEndian.PutUint64(b, rng.Uint64N(5000))
			} else {
				binary.NativeEndian.PutUint64(b, rng.Uint64())
			}
			at := 8 * rng.Int64N(2*4096/8)
			// The drainer reads most bytes only once. So half of the damage goes to the cache lines
			// with the ring's present positions, which the drainer reads again and again.
			if rng.IntN(2) == 0 {
				at = atShard + 8*rng.Int64N(256/8)
			}
			patchFile(t, bad.Path(), at, b)
			r.advanceClock(DefaultPoll)
		}
		r.runFor(time.Second)
		bad.Close()
		good.Close()
		r.runFor(300 * time.Millisecond)
		logs := readLogs(t, r.logs)
		for name, log := range logs {
			if log.checkIntact(t); name != "bad/x" && name != "good/x" {
				t.Errorf("there is a log of %s", name)
			}
		}
		wantIDs(t, logs["good/x"].events[0], 600)
		for _, err := range r.noticed {
			if !strings.HasPrefix(err.Error(), "set aside ring: ") {
				t.Errorf("noticed %v", err)
			}
		}
		aside += len(r.noticed)
	}
	if aside < rounds/5 {
		t.Errorf("of %d damaged rings %d are set aside", rounds, aside)
	}
}

func TestFilesThatAreNoRings(t *testing.T) {
	r := newRig(t, Options{})
	c := r.open("good/x", handlers.Options{})
	outside := filepath.Join(t.TempDir(), "outside")
	os.WriteFile(outside, make([]byte, 1<<16), 0o600)
	bad := map[string]func(path string) error{
		"link":  func(path string) error { return os.Symlink(outside, path) },
		"hard":  func(path string) error { return os.Link(outside, path) },
		"empty": func(path string) error { return os.WriteFile(path, nil, 0o600) },
		"zero":  func(path string) error { return os.WriteFile(path, make([]byte, 1<<16), 0o600) },
		"open": func(path string) error {
			return errors.Join(os.WriteFile(path, nil, 0o600), os.Chmod(path, 0o666))
		},
		"fifo":   func(path string) error { return syscall.Mkfifo(path, 0o600) },
		"folder": func(path string) error { return os.Mkdir(path, 0o700) },
		"random": func(path string) error {
			return os.WriteFile(path, []byte("CP-RING\n"+strings.Repeat("x", 1<<15)), 0o600)
		},
	}
	for name, make := range bad {
		if err := make(filepath.Join(r.rings, name+".ring")); err != nil {
			t.Fatal(err)
		}
	}
	for i := range uint64(100) {
		c.Log(i)
	}
	r.runFor(3 * time.Second)
	stats := r.d.Stats()
	if len(stats.Rings) != len(bad)+1 || len(r.noticed) != len(bad) {
		t.Errorf("%d rings, noticed %d of %d: %v", len(stats.Rings), len(r.noticed), len(bad),
			r.noticed)
	}
	c.Close()
	r.runFor(300 * time.Millisecond)
	wantIDs(t, readLogs(t, r.logs)["good/x"].events[0], 100)
	// If somebody removes a bad ring, the drainer forgets it.
	for name := range bad {
		os.Remove(filepath.Join(r.rings, name+".ring"))
	}
	r.runFor(2 * time.Second)
	if stats := r.d.Stats(); len(stats.Rings) > 0 {
		t.Errorf("still known: %+v", stats.Rings)
	}
}

// While no drainer ran, somebody moved a ring's head and tail back. So its records have sequence
// numbers that the log has already. The drainer takes none of them.
func TestRingThatIsBehindItsLog(t *testing.T) {
	r := newRig(t, Options{})
	c := r.open("a/b", handlers.Options{Buffer: "16KiB"})
	for id := range uint64(600) {
		c.Log(id)
	}
	r.advanceClock(DefaultPoll)
	r.advanceClock(DefaultPoll)
	r.killDrainer()
	patchFile(t, c.Path(), atHead, word(100))
	patchFile(t, c.Path(), atTail, word(200))
	r.startRig(Options{})
	r.runFor(time.Second)
	if len(r.noticed) != 1 || !errors.Is(r.noticed[0], ring.ErrDamaged) {
		t.Errorf("noticed %v, want damage once", r.noticed)
	}
	if reason := r.statsOf("a/b").SetAside; !errors.Is(reason, ring.ErrDamaged) {
		t.Errorf("set aside for %v", reason)
	}
	k := readLogs(t, r.logs)["a/b"]
	wantIDs(t, k.events[0], 600)
}

// If a log lost rows that the ring has already released, the log says that these rows are missing.
func TestLogThatLostItsEnd(t *testing.T) {
	for _, test := range []struct {
		name    string
		damage  func(path string)
		missing uint64
	}{
		{"removed", func(path string) { os.Remove(path) }, 600},
		{"emptied", func(path string) { os.Truncate(path, 0) }, 600},
		{"torn", func(path string) {
			st, _ := os.Stat(path)
			os.Truncate(path, st.Size()-1)
		}, 300},
	} {
		r := newRig(t, Options{})
		c := r.open("a/b", handlers.Options{Buffer: "16KiB"})
		var id uint64
		log := func() {
			for range 300 {
				c.Log(id)
				id++
			}
			r.advanceClock(DefaultPoll)
			r.advanceClock(DefaultPoll)
		}
		log()
		log()
		r.killDrainer()
		segments, _ := logstore.Segments(r.logs)
		test.damage(segments[len(segments)-1].Path)
		r.startRig(Options{})
		log()
		if got := r.statsOf("a/b").Missing; got != test.missing {
			t.Errorf("%s: stats say that %d rows are missing, want %d", test.name, got,
				test.missing)
		}
		c.Close()
		r.runFor(300 * time.Millisecond)
		k := readLogs(t, r.logs)["a/b"]
		if k.droppedRows(logstore.Damaged) != test.missing ||
			uint64(k.countRows())+test.missing != id {
			t.Errorf("%s: %d rows and %d damaged, want %d in all", test.name, k.countRows(),
				k.droppedRows(logstore.Damaged), id)
		}
		for _, a := range k.report.Rows {
			if a.Kind == logstore.Events && len(a.Missing) > 0 {
				t.Errorf("%s: %s", test.name, a.String())
			}
		}
		if events := k.events[0]; events[len(events)-1].ID != id-1 {
			t.Errorf("%s: the last event is %+v", test.name, events[len(events)-1])
		}
	}
}

func TestLogFileRemovedUnderTheDrainer(t *testing.T) {
	r := newRig(t, Options{})
	c := r.open("a/b", handlers.Options{Buffer: "16KiB"})
	for i := range uint64(1200) {
		c.Log(i)
		switch i {
		case 299, 599, 899:
			r.advanceClock(DefaultPoll)
			r.advanceClock(DefaultPoll)
		}
		if i == 599 {
			segments, _ := logstore.Segments(r.logs)
			os.Remove(segments[0].Path)
		}
	}
	if s := r.statsOf("a/b"); s.Removed != 1 || s.Failures != 0 {
		t.Errorf("%+v", s)
	}
	os.RemoveAll(r.logs)
	c.Close()
	r.runFor(time.Second)
	k := readLogs(t, r.logs)["a/b"]
	if len(k.events[0]) != 300 || k.events[0][0].ID != 900 || !k.report.Sealed {
		t.Errorf("%d events, sealed %v", len(k.events[0]), k.report.Sealed)
	}
}

// fullDisk is a file system that has room for only a given number of further bytes.
type fullDisk struct {
	logstore.FileSystem
	space int
}

type fullFile struct {
	logstore.WriterFile
	disk *fullDisk
}

func (d *fullDisk) OpenFile(path string, flag int, mode fs.FileMode) (logstore.WriterFile, error) {
	f, err := d.FileSystem.OpenFile(path, flag, mode)
	if err != nil {
		return nil, err
	}
	return fullFile{f, d}, nil
}

func (f fullFile) WriteAt(b []byte, offset int64) (int, error) {
	n := min(len(b), f.disk.space)
	n, err := f.WriterFile.WriteAt(b[:n], offset)
	f.disk.space -= n
	if err == nil && n < len(b) {
		err = syscall.ENOSPC
	}
	return n, err
}

// The disk becomes full in the middle of a block. The torn block is cut off the log. The ring keeps
// the block's records, and the ring's policy decides about further events. When the disk has space
// again, everything continues.
func TestDiskFullAndSpaceAgain(t *testing.T) {
	for space := 0; space < 20_000; space += 611 {
		disk := &fullDisk{logstore.OS{}, space}
		r := newRig(t, Options{FileSystem: disk, SegmentBytes: 6000})
		// The ring has 256 records.
		c := r.open("a/b", handlers.Options{Handler: "id", Policy: "drop", Buffer: "4KiB"})
		counter := r.open("a/c", handlers.Options{
			Handler: "counter", Params: map[string]any{"period": "10ms"},
		})
		var id uint64
		log := func(rounds int) {
			for range rounds {
				for range 50 {
					c.Log(id)
					counter.Log(id)
					id++
				}
				r.advanceClock(DefaultPoll)
			}
		}
		log(50)
		failed := r.d.Stats().Total.Failures
		disk.space = 1 << 40
		r.runFor(retryLast + checkPeriod)
		for _, s := range r.d.Stats().Rings {
			if s.Failure != nil || s.SetAside != nil {
				t.Fatalf("space %d: %+v", space, s)
			}
		}
		before := r.statsOf("a/b").Dropped
		log(50)
		if s := r.statsOf("a/b"); s.Dropped != before {
			t.Errorf("space %d: %d events dropped with space again", space, s.Dropped-before)
		}
		c.Close()
		counter.Close()
		r.runFor(time.Second)
		logs := readLogs(t, r.logs)
		k := logs["a/b"]
		k.checkIntact(t)
		if got := uint64(k.countRows()) + k.droppedRows(logstore.RingFull); got != id {
			t.Errorf("space %d: %d rows and %d dropped, want %d in all", space, k.countRows(),
				k.droppedRows(logstore.RingFull), id)
		}
		logs["a/c"].checkIntact(t)
		if samples := logs["a/c"].samples; samples[len(samples)-1].Count != id {
			t.Errorf("space %d: last sample %+v, want %d", space, samples[len(samples)-1], id)
		}
		if space == 0 && (failed == 0 || failed > 40 || k.droppedRows(logstore.RingFull) == 0) {
			t.Errorf("%d failures in half a second, %d dropped", failed,
				k.droppedRows(logstore.RingFull))
		}
		if failed > 0 && len(r.noticed) > 4 {
			t.Errorf("noticed %d times: %v", len(r.noticed), r.noticed)
		}
	}
}

// If the drainer cannot open logs, it reports that once. It drains the rings as soon as it can open
// the logs.
func TestLogsThatCannotBeOpened(t *testing.T) {
	r := newRig(t, Options{})
	os.RemoveAll(r.logs)
	if err := os.WriteFile(r.logs, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	c := r.open("a/b", handlers.Options{})
	c.Log(0)
	r.runFor(3 * time.Second)
	if len(r.noticed) != 1 {
		t.Errorf("noticed %v, want it once", r.noticed)
	}
	os.Remove(r.logs)
	c.Log(1)
	c.Close()
	r.runFor(3 * time.Second)
	log := readLogs(t, r.logs)["a/b"]
	log.checkIntact(t)
	wantIDs(t, log.events[0], 2)
}
