package drain

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/cloudprofiler/cloudprofiler/channel"
	"github.com/cloudprofiler/cloudprofiler/handlers"
	"github.com/cloudprofiler/cloudprofiler/logstore"
)

func logMany(c *handlers.Channel, from, to uint64) {
	for id := from; id < to; id++ {
		c.Log(id)
	}
}

func (k *logContent) ids() (all []uint64) {
	for _, e := range k.events[0] {
		all = append(all, e.ID)
	}
	return all
}

func checkIDs(t *testing.T, what string, got []uint64, from, to uint64) {
	t.Helper()
	if len(got) != int(to-from) {
		t.Fatalf("%s: %d events, want %d", what, len(got), to-from)
	}
	for i, id := range got {
		if id != from+uint64(i) {
			t.Fatalf("%s: event %d has id %d, want %d", what, i, id, from+uint64(i))
		}
	}
}

// setLogs does the same as SetLogs, for the drainer of a rig, which has no goroutines.
func (r *rig) setLogs(dir string) {
	r.t.Helper()
	done := make(chan error)
	go func() { done <- r.d.SetLogs(dir) }()
	for {
		select {
		case err := <-done:
			if err != nil {
				r.t.Fatal(err)
			}
			return
		default:
			for _, w := range r.d.workers {
				w.runPass(r.clock)
			}
		}
	}
}

func TestLogsGoToAnotherDirectory(t *testing.T) {
	r := newRig(t, Options{})
	second, third := filepath.Join(t.TempDir(), "second"), filepath.Join(t.TempDir(), "third")
	c, idle := r.open("a/x", handlers.Options{Handler: "id"}), r.open("idle/x", handlers.Options{})
	logMany(c, 0, 100)
	r.advanceClock(0)
	logMany(c, 100, 150) // these events are still in the ring
	r.setLogs(second)
	checkIDs(t, "first", readLogs(t, r.logs)["a/x"].ids(), 0, 150)
	logMany(c, 150, 200)
	r.setLogs(third)
	logMany(c, 200, 210)
	c.Close()
	idle.Close()
	r.runFor(2 * time.Second)

	for i, dir := range []string{r.logs, second, third} {
		logs := readLogs(t, dir)
		from, to := []uint64{0, 150, 200}[i], []uint64{150, 200, 210}[i]
		logs["a/x"].checkIntact(t)
		checkIDs(t, dir, logs["a/x"].ids(), from, to)
		if !logs["a/x"].report.Sealed {
			t.Errorf("the log in %q is not sealed", dir)
		}
		// A channel without events also has a log in the new directory, so that readers of the
		// directory see the channel.
		if i > 0 && logs["idle/x"] == nil {
			t.Errorf("no log of the idle channel in %q", dir)
		}
	}
	if stats := r.d.Stats(); stats.Total.Missing != 0 || stats.Finished != 2 {
		t.Errorf("%+v", stats)
	}
}

// A drainer dies after it got a new log directory, and before it has moved all logs. The next
// drainer continues the logs from the old directory.
func TestMoveAfterDeath(t *testing.T) {
	for _, moved := range []bool{false, true} {
		r := newRig(t, Options{})
		first, second := r.logs, filepath.Join(t.TempDir(), "second")
		c := r.open("a/x", handlers.Options{Handler: "xoy", Params: map[string]any{"x": 1, "y": 1}})
		logMany(c, 0, 100)
		r.advanceClock(0)
		r.runFor(2 * time.Second)
		if moved {
			r.setLogs(second)
		}
		logMany(c, 100, 120)
		r.killDrainer()
		r.logs = second
		r.startRig(Options{Before: []string{filepath.Join(first, "gone"), first}})
		r.advanceClock(0)
		if own := r.d.sources[c.Path()].own; own.Kind != channel.XoY || own.A != 1 {
			t.Errorf("moved %v: the program's own settings are %v", moved, own)
		}
		logMany(c, 120, 130)
		c.Close()
		r.runFor(2 * time.Second)
		end := uint64(120)
		if moved {
			end = 100
		}
		checkIDs(t, "first", readLogs(t, first)["a/x"].ids(), 0, end)
		k := readLogs(t, second)["a/x"]
		k.checkIntact(t)
		checkIDs(t, "second", k.ids(), end, 130)
		if n := r.d.Stats().Total.Missing; n != 0 {
			t.Errorf("moved %v: %d missing", moved, n)
		}
	}
}

// A drainer dies during a move: the log is sealed in the old directory and not yet begun in the new
// directory. The next drainer does not change the old part, which says that it will get no more
// rows.
func TestDeathBetweenDirectories(t *testing.T) {
	r := newRig(t, Options{})
	first, second := r.logs, filepath.Join(t.TempDir(), "second")
	c := r.open("a/x", handlers.Options{Handler: "id"})
	logMany(c, 0, 100)
	r.advanceClock(0)
	r.runFor(time.Second)
	err := r.d.sources[c.Path()].log.Move(second) // fails, because nobody has created the directory
	if !errors.Is(err, fs.ErrNotExist) {
		t.Fatal(err)
	}
	r.killDrainer()
	logMany(c, 100, 120)
	r.logs = second
	r.startRig(Options{Before: []string{first}})
	r.advanceClock(0)
	logMany(c, 120, 130)
	c.Close()
	r.runFor(2 * time.Second)
	for dir, ids := range map[string][2]uint64{first: {0, 100}, second: {100, 130}} {
		k := readLogs(t, dir)["a/x"]
		k.checkIntact(t)
		checkIDs(t, dir, k.ids(), ids[0], ids[1])
	}
	if then := readLogs(t, first)["a/x"].report.Then; then != logstore.Moved {
		t.Errorf("the first part says %q", then)
	}
	k := readLogs(t, second)["a/x"]
	if k.report.Then != logstore.Ended || k.header.Part != k.header.Segment {
		t.Errorf("the second part says %q, and begins with %d", k.report.Then, k.header.Part)
	}
}

// Logs leave a directory and return to it. A new drainer continues after the latest segment,
// whichever directory has it.
func TestComeBackAfterDeath(t *testing.T) {
	r := newRig(t, Options{})
	first, second := r.logs, filepath.Join(t.TempDir(), "second")
	c := r.open("a/x", handlers.Options{Handler: "id"})
	logMany(c, 0, 100)
	r.advanceClock(0)
	r.setLogs(second)
	logMany(c, 100, 200)
	r.runFor(time.Second)
	r.killDrainer()
	// The drainer was told to return to the first directory, and died before it did.
	r.logs = first
	r.startRig(Options{Before: []string{second}})
	logMany(c, 200, 210)
	c.Close()
	r.advanceClock(0)
	r.runFor(2 * time.Second)
	// The program ended before the drainer moved its log.
	checkIDs(t, "second", readLogs(t, second)["a/x"].ids(), 100, 210)
	if stats := r.d.Stats().Total; stats.Missing != 0 {
		t.Errorf("%+v", stats)
	}
}

// If the new directory cannot be created, the logs stay in the old one.
func TestLogsStayWhereTheyCannotGo(t *testing.T) {
	r := newRig(t, Options{})
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := r.d.SetLogs(file); err == nil || r.d.Logs() != r.logs {
		t.Errorf("%v, logs in %q", err, r.d.Logs())
	}
}

// At a limit the drainer takes records but does not store them. The log says which records are
// missing, and continues when there is room again.
func TestLimit(t *testing.T) {
	r := newRig(t, Options{MaxBytes: 30_000})
	c := r.open("a/x", handlers.Options{Handler: "id", Policy: "drop"})
	const batch, batches = 1000, 40
	for i := range uint64(batches) {
		logMany(c, i*batch, (i+1)*batch)
		r.advanceClock(identityHold)
	}
	stats := r.d.Stats()
	if stats.Total.NotStored == 0 || stats.Total.Dropped > 0 || !errors.Is(stats.Limit, ErrLimit) {
		t.Fatalf("%+v", stats)
	}
	if len(r.noticed) != 1 || !errors.Is(r.noticed[0], ErrLimit) {
		t.Errorf("noticed %v", r.noticed)
	}
	if err := r.d.SetLimits(0, 0); err != nil {
		t.Fatal(err)
	}
	logMany(c, batch*batches, batch*batches+10)
	c.Close()
	r.runFor(2 * time.Second)
	k := readLogs(t, r.logs)["a/x"]
	if !k.report.Sealed || k.report.Duplicates+k.report.Overlaps > 0 {
		t.Errorf("%+v", k.report)
	}
	gone := k.droppedRows(logstore.NotStored)
	if gone != stats.Total.NotStored || uint64(k.countRows())+gone != batch*batches+10 {
		t.Errorf("%d in the log and %d not stored of %d; stats say %d", k.countRows(), gone,
			batch*batches+10, stats.Total.NotStored)
	}
	all := k.ids()
	if all[len(all)-1] != batch*batches+9 {
		t.Errorf("the last id is %d", all[len(all)-1])
	}
	var size int64
	entries, _ := os.ReadDir(r.logs)
	for _, e := range entries {
		info, _ := e.Info()
		size += info.Size()
	}
	if size > 60_000 {
		t.Errorf("%d bytes of at most 30000 and a block", size)
	}
}

func TestFreeSpaceIsLeft(t *testing.T) {
	r := newRig(t, Options{MinFree: 0.999999})
	c := r.open("a/x", handlers.Options{Handler: "id"})
	logMany(c, 0, 100)
	c.Close()
	r.advanceClock(0)
	r.runFor(time.Second)
	if got := r.d.Stats().Total; got.NotStored != 100 || got.Rows == 0 {
		t.Errorf("%+v", got)
	}
}

// If a drainer skips rows at a limit and dies, the next drainer notes that these rows are missing.
func TestSkippedRowsOfTheDead(t *testing.T) {
	r := newRig(t, Options{})
	c := r.open("a/x", handlers.Options{Handler: "id"})
	logMany(c, 0, 10)
	r.advanceClock(0)
	r.advanceClock(time.Second)
	if err := r.d.SetLimits(1, 0); err != nil {
		t.Fatal(err)
	}
	logMany(c, 10, 50)
	r.advanceClock(identityHold)
	r.killDrainer()
	r.startRig(Options{})
	logMany(c, 50, 60)
	c.Close()
	r.advanceClock(0)
	r.runFor(2 * time.Second)
	k := readLogs(t, r.logs)["a/x"]
	if n := k.droppedRows(logstore.Damaged); n != 40 || k.countRows() != 20 {
		t.Errorf("%d damaged, %d events", n, k.countRows())
	}
}

func TestProcessesAreCapped(t *testing.T) {
	for name, o := range map[string]Options{"rings": {MaxProcessRings: 2},
		"bytes": {MaxProcessBytes: 2*(1<<20) + 100_000}} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, o)
			var channels []*handlers.Channel
			for range 3 {
				channels = append(channels, r.open("a/x", handlers.Options{Policy: "drop"}))
			}
			r.advanceClock(0)
			stats := r.d.Stats()
			if len(stats.Rings) != 2 || len(stats.Processes) != 1 ||
				stats.Processes[0].Rings != 2 || stats.Processes[0].ProcessID != os.Getpid() {
				t.Fatalf("%+v", stats)
			}
			if len(r.noticed) != 1 || !errors.Is(r.noticed[0], ErrProcess) {
				t.Errorf("noticed %v", r.noticed)
			}
			// Once one of these rings is gone, there is room for the third.
			for _, c := range channels {
				if c.Path() == stats.Rings[0].Path {
					c.Close()
				}
			}
			r.runFor(3 * time.Second)
			stats = r.d.Stats()
			if len(stats.Rings) != 2 || stats.Finished != 1 {
				t.Errorf("%+v", stats)
			}
		})
	}
}

// If a new limit is set and reached, the drainer reports it, too.
func TestEachLimitIsSaid(t *testing.T) {
	r := newRig(t, Options{MaxBytes: 1})
	c := r.open("a/x", handlers.Options{Handler: "id"})
	for want := 1; want <= 2; want++ {
		for range 2 {
			logMany(c, 0, 10)
			// The second group of events comes too early for a second report of the same limit.
			r.runFor(limitQuiet / 5)
		}
		if len(r.noticed) != want {
			t.Errorf("noticed %v, want %d", r.noticed, want)
		}
		if err := r.d.SetLimits(2, 0); err != nil {
			t.Fatal(err)
		}
	}
}

// If free space runs out and returns again and again, the drainer reports each time that it runs
// out.
func TestALimitThatComesAndGoes(t *testing.T) {
	r := newRig(t, Options{MinFree: 0.05})
	free := 0.5
	r.d.limits.free = func(string) (float64, error) { return free, nil }
	c := r.open("a/x", handlers.Options{Handler: "id"})
	logs := func() {
		logMany(c, 0, 10)
		r.runFor(2 * time.Second)
	}
	for want := range 3 {
		free = 0.5
		logs()
		if err := r.d.Limit(); err != nil || len(r.noticed) != want {
			t.Errorf("with room: %v, noticed %v, want %d", err, r.noticed, want)
		}
		free = 0.04
		logs()
		logs()
		if err := r.d.Limit(); !errors.Is(err, ErrLimit) || len(r.noticed) != want+1 {
			t.Errorf("without room: %v, noticed %v, want %d", err, r.noticed, want+1)
		}
	}
	c.Close()
	r.runFor(2 * time.Second)
	k := readLogs(t, r.logs)["a/x"]
	if gone := k.droppedRows(logstore.NotStored); k.countRows() < 30 || gone < 30 ||
		uint64(k.countRows())+gone != 90 {
		t.Errorf("%d events and %d not stored of 90", k.countRows(), gone)
	}
}

// If free space runs out many times a second, the drainer reports it only from time to time. If
// space runs out too soon after a report and does not return, the drainer reports it after a while.
func TestALimitThatFlickers(t *testing.T) {
	r := newRig(t, Options{MinFree: 0.05})
	looks, full := 0, false
	r.d.limits.free = func(string) (float64, error) {
		if looks++; full || looks%2 == 0 {
			return 0.04, nil
		}
		return 0.06, nil
	}
	c := r.open("a/x", handlers.Options{Handler: "id"})
	log := func(until time.Duration) {
		for r.clock < until {
			c.Log(1)
			r.runFor(limitTick / 2)
		}
	}
	begin := r.clock
	log(begin + 4*limitQuiet - time.Second)
	if looks < 50 || len(r.noticed) < 3 || len(r.noticed) > 4 {
		t.Errorf("looked %d times, said %v", looks, r.noticed)
	}
	full = true
	log(r.clock + 2*limitQuiet)
	if n := len(r.noticed); n != 5 {
		t.Errorf("said %d times in all: %v", n, r.noticed)
	}
}
