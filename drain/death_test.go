package drain

import (
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"testing"
	"time"

	"github.com/cloudprofiler/cloudprofiler/channel"
	"github.com/cloudprofiler/cloudprofiler/handlers"
	"github.com/cloudprofiler/cloudprofiler/handlertable"
	"github.com/cloudprofiler/cloudprofiler/internal/seed"
	"github.com/cloudprofiler/cloudprofiler/logstore"
	"github.com/cloudprofiler/cloudprofiler/ring"
)

// faultPanic is the value of the panic that ends a drainer at a fault point.
type faultPanic struct{ at FaultPoint }

// diesDuring calls the function do and reports whether a fault ended it.
func diesDuring(do func()) (died bool) {
	defer func() {
		switch r := recover().(type) {
		case nil:
		case faultPanic:
			died = true
		default:
			panic(r)
		}
	}()
	do()
	return false
}

// story is a program whose rings contain every kind of data that a drainer moves: events, links,
// drops, counts, cells and a flight recorder's events. The method checkLogs compares the logs with
// what the program did.
type story struct {
	r        *rig
	rng      *rand.Rand
	one      *handlers.Channel // has one writer, and drops events if the ring is full
	many     *handlers.Channel // has many writers, and drops events if the ring is full
	links    *handlers.Channel
	counter  *handlers.Channel
	cell     *handlers.Channel
	recorder *handlers.Channel
	calls    uint64 // number of calls on each channel
}

func newStory(r *rig, rng *rand.Rand) *story {
	s := &story{r: r, rng: rng}
	s.one = r.open("one/x", handlers.Options{Handler: "buffered", Policy: "drop", Buffer: "4KiB"})
	s.many = r.openAs("many/x", handlers.Options{Handler: "id", Policy: "drop", Buffer: "4KiB"},
		handlers.OpenShared)
	s.links = r.open("links/x", handlers.Options{Handler: "link", Policy: "drop", Buffer: "8KiB"})
	s.counter = r.open("counter/x", handlers.Options{Handler: "counter"})
	s.cell = r.open("cell/x", handlers.Options{Handler: "first-last"})
	s.recorder = r.open("recorder/x", handlers.Options{Policy: "overwrite", Buffer: "4KiB"})
	return s
}

// logCalls makes a number of calls on each channel.
func (s *story) logCalls(n int) {
	for range n {
		id := s.calls
		s.one.Log(id)
		s.many.Log(id)
		s.links.Link(id, id+1)
		s.counter.Log(id)
		s.cell.Log(id)
		s.recorder.Log(id)
		s.calls++
	}
}

// closeChannels closes the channels. It also makes a ring with holes: records that a program
// reserved but never wrote.
func (s *story) closeChannels() {
	for _, c := range []*handlers.Channel{s.one, s.many, s.links, s.counter, s.cell, s.recorder} {
		c.Close()
	}
	p, err := ring.Create(s.r.rings, ring.Config{
		Name: name(s.r.t, "hole/x"), Settings: channel.Settings{Kind: channel.Buffered},
		ManyWriters: true, Records: 4096,
	})
	if err != nil {
		s.r.t.Fatal(err)
	}
	shard := &p.Shards[0]
	for seq := range uint64(100) {
		if seq%10 < 7 {
			*recordAt(shard, seq) = ring.Record{Counter: shard.Finished(seq, seq), ID: seq}
		}
	}
	*shard.Tail = 100
	p.Close()
}

// checkLogs compares the logs with the program's calls.
func (s *story) checkLogs() error {
	logs, err := tryReadLogs(s.r.logs)
	if err != nil {
		return err
	}
	for name, k := range logs {
		if !k.report.Whole() || k.report.Duplicates+k.report.Overlaps+k.report.Foreign > 0 ||
			!k.report.Sealed {
			return fmt.Errorf("log of %s is not whole and sealed: %+v", name, k.report)
		}
		for _, drops := range k.drops {
			for _, d := range drops {
				reason := map[string]logstore.Reason{"hole/x": logstore.NeverWritten,
					"recorder/x": logstore.Overwritten}[name]
				if got := logstore.Reason(d.Reason); got != max(reason, logstore.RingFull) {
					return fmt.Errorf("%s: %d rows %s", name, d.Count, got)
				}
			}
		}
		for shard, rows := range k.transitions {
			for i, row := range rows {
				if i > 0 && (row.Generation <= rows[i-1].Generation || row.From < rows[i-1].From) {
					return fmt.Errorf("%s, shard %d: transition %+v after %+v", name, shard, row,
						rows[i-1])
				}
			}
		}
	}
	for _, name := range []string{"one/x", "many/x", "links/x", "recorder/x"} {
		if logs[name] == nil {
			return fmt.Errorf("no log of %s", name)
		}
	}
	// Each of these channels has one writer, so its ids are in order. Every id below the number of
	// calls is in the log, or is counted as dropped at its place.
	for _, name := range []string{"one/x", "links/x", "recorder/x"} {
		k := logs[name]
		// gaps has, for each row, the number of events that were dropped directly before this row.
		gaps := map[uint64]uint64{}
		for _, d := range k.drops[0] {
			gaps[d.At] += d.Count
		}
		ids := make([]uint64, 0, len(k.events[0]))
		for _, e := range k.events[0] {
			ids = append(ids, e.ID)
		}
		for _, l := range k.links[0] {
			if l.Child != l.Parent+1 {
				return fmt.Errorf("%s: link %+v", name, l)
			}
			ids = append(ids, l.Parent)
		}
		id, row := uint64(0), uint64(0)
		for _, got := range ids {
			id += gaps[row]
			// In a flight recorder's log, missing rows also count as rows.
			for name == "recorder/x" && gaps[row] > 0 {
				row += gaps[row]
				id = row
			}
			if got != id {
				return fmt.Errorf("%s: row %d has id %d, want %d", name, row, got, id)
			}
			id++
			row++
		}
		if id += gaps[row]; id != s.calls {
			return fmt.Errorf("%s: %d ids are in the log or dropped, want %d", name, id, s.calls)
		}
	}
	many := logs["many/x"]
	seen := map[uint64]bool{}
	for shard, events := range many.events {
		for i, e := range events {
			if seen[e.ID] || i > 0 && e.ID <= events[i-1].ID {
				return fmt.Errorf("many/x, shard %d: id %d twice or out of order", shard, e.ID)
			}
			seen[e.ID] = true
		}
	}
	if got := uint64(len(seen)) + many.droppedRows(logstore.RingFull); got != s.calls {
		return fmt.Errorf("many/x: %d ids are in the log or dropped, want %d", got, s.calls)
	}
	if hole := logs["hole/x"]; hole == nil || hole.countRows() != 70 ||
		hole.droppedRows(logstore.NeverWritten) != 30 {
		return fmt.Errorf("hole/x: %+v", hole)
	}
	if s.calls == 0 {
		return nil
	}
	if samples := logs["counter/x"].samples; len(samples) == 0 ||
		samples[len(samples)-1].Count != s.calls {
		return fmt.Errorf("counter/x: %d calls, samples %+v", s.calls, samples)
	}
	if cells := logs["cell/x"].firstLasts; len(cells) == 0 ||
		cells[len(cells)-1].Count != s.calls || cells[len(cells)-1].LastID != s.calls-1 {
		return fmt.Errorf("cell/x: %d calls, rows %+v", s.calls, cells)
	}
	if files, _ := ring.Files(s.r.rings); len(files) > 0 {
		return fmt.Errorf("rings are left: %v", files)
	}
	return nil
}

// switchingTables has two handler tables. Stories switch from one to the other.
var switchingTables = func() (tables [2]*handlertable.Table) {
	for i, kind := range []channel.Kind{channel.Buffered, channel.Identity} {
		tables[i] = &handlertable.Table{Rules: []handlertable.Rule{
			{Channel: "one/*", Settings: channel.Settings{Kind: kind}},
			{Channel: "many/*", Settings: channel.Settings{Kind: kind}},
		}}
	}
	return tables
}()

// A drainer dies when it reaches a fault point for the n-th time, and another drainer continues. No
// record is lost or doubled. The test tries each fault point, with many values of n.
func TestDeathAtEveryFaultPoint(t *testing.T) {
	seed.NotUnderRace(t, "nothing runs side by side")
	from := seed.Of(t)
	most := 400
	if testing.Short() {
		most = 60
	}
	most /= seed.Share()
	for i, point := range FaultPoints() {
		t.Run(string(point), func(t *testing.T) {
			t.Parallel() // it waits for the disk and for drainers most of the time
			rng := rand.New(rand.NewPCG(from, uint64(i)))
			for n := 1; ; n = n + 1 + n/3 {
				if n > most {
					break
				}
				if deaths := tellStory(t, rng, point, n); deaths == 0 {
					if n == 1 {
						t.Error("the story does not come to this point")
					}
					break
				}
			}
		})
	}
}

// tellStory runs a story in which drainers die at the given fault point. The first drainer dies
// when it comes there for the n-th time. It returns how many drainers died.
func tellStory(t *testing.T, rng *rand.Rand, point FaultPoint, n int) (deaths int) {
	t.Helper()
	r := &rig{t: t, rings: t.TempDir(), logs: filepath.Join(t.TempDir(), "logs")}
	o := Options{SegmentBytes: 3000, Table: switchingTables[0]}
	left := n
	o.Fault = func(at FaultPoint) {
		if at == point {
			if left--; left == 0 {
				panic(faultPanic{at})
			}
		}
	}
	r.startRig(o)
	s := newStory(r, rng)
	live := func(do func()) {
		for diesDuring(do) {
			deaths++
			r.killDrainer()
			// With each death, let the drainer pass the fault point once more. Otherwise it could
			// die at the same place forever.
			left = n + deaths
			r.startRig(o)
		}
	}
	for round := range 30 {
		s.logCalls(rng.IntN(200))
		if round%7 == 3 {
			r.d.SetTable(switchingTables[round/7%2])
			o.Table = switchingTables[round/7%2]
		}
		live(func() { r.advanceClock(time.Duration(rng.IntN(300)) * time.Millisecond) })
		if round%10 == 9 {
			live(func() {
				for _, w := range r.d.workers {
					for _, source := range w.sources {
						if source.header.Policy == channel.Overwrite && source.synced {
							if err := source.dumpRecorder(w); err != nil {
								t.Fatal(err)
							}
						}
					}
				}
			})
		}
	}
	s.closeChannels()
	for range 20 {
		live(func() { r.runFor(300 * time.Millisecond) })
	}
	r.killDrainer()
	if err := s.checkLogs(); err != nil {
		t.Fatalf("death at the %d. %s: %v", n, point, err)
	}
	if len(r.noticed) > 0 {
		t.Fatalf("death at the %d. %s: %v", n, point, r.noticed)
	}
	return deaths
}

// If a drainer dies after it has sealed a log and before it has removed the ring, the next drainer
// adds nothing to the complete log.
func TestDeathAfterSealAddsNothing(t *testing.T) {
	for _, handler := range []string{"counter", "first-last", "buffered"} {
		r := newRig(t, Options{Fault: func(p FaultPoint) {
			if p == AfterSeal {
				panic(faultPanic{p})
			}
		}})
		c := r.open("a/b", handlers.Options{Handler: handler})
		c.Log(7)
		r.runFor(2 * time.Second)
		c.Log(8)
		c.Close()
		if !diesDuring(func() { r.runFor(time.Second) }) {
			t.Fatal("no death")
		}
		r.killDrainer()
		r.startRig(Options{})
		r.runFor(time.Second)
		if log := readLogs(t, r.logs)["a/b"]; log.segments != 1 || !log.report.Sealed {
			t.Errorf("%s: %d segments, sealed %v", handler, log.segments, log.report.Sealed)
		}
		if files, _ := ring.Files(r.rings); len(files) > 0 {
			t.Errorf("%s: %v is left", handler, files)
		}
	}
}
