package drain

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
	"unsafe"

	"github.com/cloudprofiler/cloudprofiler/channel"
	"github.com/cloudprofiler/cloudprofiler/handlers"
	"github.com/cloudprofiler/cloudprofiler/logstore"
	"github.com/cloudprofiler/cloudprofiler/ring"
)

// wantIDs fails the test unless there are n events, with the ids 0 to n−1 in order.
func wantIDs(t testing.TB, events []logstore.Event, n uint64) {
	t.Helper()
	if uint64(len(events)) != n {
		t.Fatalf("%d events, want %d", len(events), n)
	}
	for i, e := range events {
		if e.ID != uint64(i) || i > 0 && e.Counter < events[i-1].Counter {
			t.Fatalf("event %d is %+v", i, e)
		}
	}
}

func TestEveryEventOfAProgramThatEnds(t *testing.T) {
	place := func(_ uint64, id int) string { return fmt.Sprintf("container of %d", id) }
	r := newRig(t, Options{Place: place, Quantum_cycles: 1, CoreSlack_cycles: 65,
		Epoch: func() string {
			return "epoch-7"
		}})
	const n = 150_000
	c := r.open("parser#3/start", handlers.Options{Handler: "buffered"})
	for i := range uint64(n) {
		c.Log(i)
		if i%10_000 == 9_999 {
			r.advanceClock(DefaultPoll)
		}
	}
	c.Close()
	r.runFor(200 * time.Millisecond)
	log := readLogs(t, r.logs)["parser#3/start"]
	log.checkIntact(t)
	wantIDs(t, log.events[0], n)
	h := log.header
	if !log.report.Sealed || h.Node != "node-1" || h.Epoch != "epoch-7" || h.Quantum_cycles != 1 ||
		h.CoreSlack_cycles != 65 ||
		h.Settings.Kind != channel.Buffered || h.Counter == 0 || h.UTCHi_ns < h.UTCLo_ns ||
		h.ProcessID != os.Getpid() || h.Place != place(0, os.Getpid()) {
		t.Errorf("sealed %v, header %+v", log.report.Sealed, h)
	}
	if len(log.transitions[0]) != 1 || log.transitions[0][0].From != 0 ||
		log.transitions[0][0].Settings().Kind != channel.Buffered {
		t.Errorf("transitions %+v", log.transitions)
	}
	if files, _ := ring.Files(r.rings); len(files) > 0 {
		t.Errorf("the ring is still there: %v", files)
	}
	stats := r.d.Stats()
	if stats.Finished != 1 || stats.Total.Events != n || len(stats.Rings) != 0 ||
		len(r.noticed) > 0 {
		t.Errorf("%+v, noticed %v", stats, r.noticed)
	}
}

// Events that the handler "id" keeps are in the file, uncompressed, within 100 ms. Events that
// other handlers keep wait up to a second.
func TestWhenEventsAreInTheFile(t *testing.T) {
	for _, test := range []struct {
		handler string
		within  time.Duration
		plain   bool
	}{{"id", 100 * time.Millisecond, true}, {"buffered", 1100 * time.Millisecond, false}} {
		r := newRig(t, Options{})
		c := r.open("a/b", handlers.Options{Handler: test.handler})
		r.runFor(500 * time.Millisecond) // open, but no events yet
		size := func() int64 { return r.d.workers[0].sources[0].log.Size() }
		for phase := range 20 {
			r.advanceClock(time.Duration(phase) * time.Millisecond / 2)
			before := r.statsOf("a/b").Rows
			at := size()
			for i := range uint64(100) {
				c.Log(i)
			}
			logged := r.clock
			for r.statsOf("a/b").Rows == before && r.clock < logged+2*time.Second {
				r.advanceClock(DefaultPoll)
			}
			if took := r.clock - logged; took > test.within || took < test.within/4 {
				t.Errorf("%s: in the file after %s, want within %s and not at once", test.handler,
					took, test.within)
			}
			if plain := size()-at == logstore.BlockOverhead+16*100; plain != test.plain {
				t.Errorf("%s: 100 events take %d bytes", test.handler, size()-at)
			}
		}
	}
}

func TestAQuarterOfTheRingIsWrittenAtOnce(t *testing.T) {
	r := newRig(t, Options{})
	c := r.open("a/b", handlers.Options{Handler: "buffered", Buffer: "64Ki"}) // 4,096 records
	r.advanceClock(DefaultPoll)
	for i := range uint64(1023) {
		c.Log(i)
	}
	r.advanceClock(DefaultPoll)
	if s := r.statsOf("a/b"); s.Waiting != 1023 {
		t.Errorf("%d records wait, want 1023", s.Waiting)
	}
	c.Log(1023)
	r.advanceClock(DefaultPoll)
	r.advanceClock(DefaultPoll)
	if s := r.statsOf("a/b"); s.Rows < 1024 {
		t.Errorf("%d rows are written, want 1024", s.Rows)
	}
}

func TestManyWritersDrainShardByShard(t *testing.T) {
	r := newRig(t, Options{})
	c := r.openAs("a/b", handlers.Options{}, handlers.OpenShared)
	const writers, each = 8, 20_000
	done := make(chan bool)
	for i := range uint64(writers) {
		go func() {
			for k := range uint64(each) {
				c.Log(i<<32 | k)
			}
			done <- true
		}()
	}
	for ended := 0; ended < writers; {
		select {
		case <-done:
			ended++
		default:
			r.advanceClock(time.Millisecond)
		}
	}
	c.Close()
	r.runFor(200 * time.Millisecond)
	log := readLogs(t, r.logs)["a/b"]
	log.checkIntact(t)
	seen := map[uint64]bool{}
	for shard, events := range log.events {
		next := map[uint64]uint64{}
		for _, e := range events {
			writer, k := e.ID>>32, e.ID&0xFFFFFFFF
			if seen[e.ID] || k < next[writer] {
				t.Fatalf("shard %d: id %#x twice or out of order", shard, e.ID)
			}
			seen[e.ID], next[writer] = true, k+1
		}
	}
	if got := uint64(len(seen)) + log.droppedRows(logstore.RingFull); got != writers*each {
		t.Errorf("%d events in the log or dropped, want %d", got, writers*each)
	}
}

func TestLinksAreKeptAsPairs(t *testing.T) {
	for _, open := range []func(string, handlers.Options) (*handlers.Channel, error){handlers.Open,
		handlers.OpenShared} {
		r := newRig(t, Options{})
		c := r.openAs("a/b", handlers.Options{Handler: "link"}, open)
		const n = 30_000
		for i := range uint64(n) {
			c.Link(i, 2*i)
			if i%5_000 == 0 {
				r.advanceClock(DefaultPoll)
			}
		}
		r.runFor(2 * time.Second)
		c.Close()
		r.runFor(200 * time.Millisecond)
		log := readLogs(t, r.logs)["a/b"]
		log.checkIntact(t)
		seen := map[uint64]bool{}
		for _, links := range log.links {
			for _, l := range links {
				if l.Child != 2*l.Parent || seen[l.Parent] {
					t.Fatalf("link %+v", l)
				}
				seen[l.Parent] = true
			}
		}
		if len(seen) != n || len(log.events[0]) > 0 {
			t.Errorf("%d links and %d events, want %d and none", len(seen), len(log.events[0]), n)
		}
	}
}

func TestDropsAreAccountedForByRange(t *testing.T) {
	r := newRig(t, Options{})
	// The ring has 64 records.
	c := r.open("a/b", handlers.Options{Handler: "buffered", Policy: "drop", Buffer: "1Ki"})
	var id uint64
	log := func(n int) {
		for range n {
			c.Log(id)
			id++
		}
	}
	log(100) // 36 of them are dropped
	r.advanceClock(checkPeriod)
	if s := r.statsOf("a/b"); s.Dropped != 36 || s.Waiting != 0 && s.Rows == 0 {
		t.Errorf("%+v", s)
	}
	log(70) // 6 of them are dropped, at another place
	r.advanceClock(checkPeriod)
	log(1) // one more event, which has room
	r.advanceClock(checkPeriod)
	c.Close()
	r.runFor(200 * time.Millisecond)
	k := readLogs(t, r.logs)["a/b"]
	k.checkIntact(t)
	if len(k.drops[0]) != 2 {
		t.Fatalf("drops %+v, want two ranges", k.drops[0])
	}
	for i, want := range []struct{ at, count uint64 }{{64, 36}, {128, 6}} {
		d := k.drops[0][i]
		if d.At != want.at || d.Count != want.count || d.Of != uint64(logstore.Events) ||
			d.FirstCounter == 0 || d.LastCounter < d.FirstCounter {
			t.Errorf("range %d: %+v, want %+v", i, d, want)
		}
	}
	if uint64(k.countRows())+k.droppedRows(logstore.RingFull) != id {
		t.Errorf("%d events and %d dropped, want %d in all", k.countRows(),
			k.droppedRows(logstore.RingFull), id)
	}
}

// A range of drops counts the events that a program dropped at one place in the ring. While the
// program lives, the drainer logs a range only after the range can no longer grow.
func TestARangeOfDropsIsTakenWhenItIsOver(t *testing.T) {
	r := newRig(t, Options{})
	c := r.open("a/b", handlers.Options{Handler: "id", Policy: "drop", Buffer: "1Ki"})
	for i := range uint64(70) {
		c.Log(i)
	}
	// The ring is empty now, but the program may still drop the next event at the same place.
	r.runFor(300 * time.Millisecond)
	if log := readLogs(t, r.logs)["a/b"]; len(log.drops[0]) > 0 {
		t.Errorf("taken too early: %+v", log.drops)
	}
	c.Log(70)
	r.runFor(300 * time.Millisecond)
	if log := readLogs(t, r.logs)["a/b"]; log.droppedRows(logstore.RingFull) != 6 {
		t.Errorf("not taken: %+v", log.drops)
	}
}

// recordAt returns a pointer to a record of a shard.
func recordAt(s *ring.Shard, seq uint64) *ring.Record {
	return (*ring.Record)(unsafe.Add(s.Records, (seq&s.Mask)*ring.RecordBytes))
}

func TestHolesOfADeadOwner(t *testing.T) {
	for _, per := range []uint64{1, 2} {
		r := newRig(t, Options{})
		handler, kind := channel.Buffered, logstore.Events
		if per == 2 {
			handler, kind = channel.Link, logstore.Links
		}
		p, err := ring.Create(r.rings, ring.Config{
			Name: name(t, "a/b"), Settings: channel.Settings{Kind: handler}, ManyWriters: true,
			Records: 4096,
		})
		if err != nil {
			t.Fatal(err)
		}
		shard := &p.Shards[0]
		finish := func(row uint64) {
			for seq := row * per; seq < (row+1)*per; seq++ {
				*recordAt(shard, seq) = ring.Record{Counter: shard.Finished(seq+1, seq), ID: seq}
			}
		}
		// Rows 3, 4 and 9 are reserved but never written. If a row has two records, only one record
		// of row 7 is written.
		for row := range uint64(9) {
			if row != 3 && row != 4 && (row != 7 || per == 1) {
				finish(row)
			}
		}
		if per == 2 {
			*recordAt(shard, 14) = ring.Record{Counter: shard.Finished(1, 14), ID: 14}
		}
		*shard.Tail = 10 * per
		r.runFor(2 * time.Second)
		if log := readLogs(t, r.logs)["a/b"]; log != nil && log.countRows() != 3 {
			t.Errorf("%s: of a living owner %d rows are taken, want the 3 before the hole", kind,
				log.countRows())
		}
		if s := r.statsOf("a/b"); s.Holes != 0 {
			t.Errorf("%s: %d holes of a living owner", kind, s.Holes)
		}
		p.Close()
		r.runFor(200 * time.Millisecond)
		log := readLogs(t, r.logs)["a/b"]
		log.checkIntact(t)
		var holes []uint64
		for _, d := range log.drops[0] {
			if logstore.Reason(d.Reason) != logstore.NeverWritten || d.Of != uint64(kind) {
				t.Errorf("%+v", d)
			}
			for i := range d.Count {
				holes = append(holes, d.At+i)
			}
		}
		want := 4 - int(per)
		if per == 2 {
			want = 4
		}
		if len(holes) != want || log.countRows()+len(holes) != 10 || holes[0] != 3 ||
			holes[len(holes)-1] != 9 {
			t.Errorf("%s: holes %v and %d rows", kind, holes, log.countRows())
		}
	}
}

func TestCloseLeavesLivingRingsToTheNext(t *testing.T) {
	r := newRig(t, Options{})
	c := r.open("a/b", handlers.Options{})
	counter := r.open("a/c", handlers.Options{Handler: "counter"})
	var id uint64
	for round := range 4 {
		for range 1000 {
			c.Log(id)
			counter.Log(id)
			id++
		}
		var d *Drainer
		var err error
		if round%2 == 0 {
			r.d.Close()
			d, err = Start(r.rings, Options{Logs: r.logs, Node: "node-1"})
			if err != nil {
				t.Fatal(err)
			}
			err = d.Close()
		} else {
			r.startRig(Options{})
			r.advanceClock(checkPeriod)
			r.d.workers[0].drainAll()
			err = r.d.Close()
		}
		if err != nil {
			t.Fatal(err)
		}
		logs := readLogs(t, r.logs)
		logs["a/b"].checkIntact(t)
		wantIDs(t, logs["a/b"].events[0], id)
		if logs["a/b"].report.Sealed || logs["a/b"].segments != 1 {
			t.Errorf("sealed %v, %d segments", logs["a/b"].report.Sealed, logs["a/b"].segments)
		}
		if samples := logs["a/c"].samples; samples[len(samples)-1].Count != id {
			t.Errorf("last sample %+v, want %d", samples[len(samples)-1], id)
		}
	}
}

func TestWhatComesTooLateIsAnError(t *testing.T) {
	r := newRig(t, Options{})
	r.open("a/b", handlers.Options{})
	r.advanceClock(checkPeriod)
	r.d.workers[0].drainAll() // as if Close ran at this moment
	for what, err := range map[string]error{"Flush": r.d.Flush(), "Snapshot": r.d.Snapshot(nil),
		"SetLogs": r.d.SetLogs(t.TempDir())} {
		if !errors.Is(err, errClosed) {
			t.Errorf("%s: %v", what, err)
		}
	}
}

func TestSecondDrainerIsRefused(t *testing.T) {
	r := newRig(t, Options{})
	_, err := Start(r.rings, Options{Logs: r.logs})
	if !errors.Is(err, ring.ErrLocked) || !strings.Contains(err.Error(), "stop that one first") {
		t.Errorf("second drainer: %v", err)
	}
}

func TestOptionsAreChecked(t *testing.T) {
	broken := filepath.Join(t.TempDir(), "table.yaml")
	os.WriteFile(broken, []byte("version: 1\nrules:\n- {channel: x, handler: y}\n"), 0o600)
	for _, test := range []struct {
		o   Options
		say string
	}{
		{Options{Workers: -1}, "use 1 or more"},
		{Options{Poll: time.Second}, "use 1ms to 25ms"},
		{Options{Poll: time.Microsecond}, "use 1ms to 25ms"},
		{Options{SegmentBytes: -1}, "segments of -1 bytes"},
		{Options{TableFile: broken}, "line 3"},
		{Options{TableFile: broken + "x"}, "no such file"},
	} {
		test.o.Logs = t.TempDir()
		if d, err := Start(t.TempDir(), test.o); err == nil ||
			!strings.Contains(err.Error(), test.say) {
			t.Errorf("%+v: %v, %v, want %q", test.o, d, err, test.say)
		}
	}
}

func TestAbandonedPartsAreRemoved(t *testing.T) {
	r := newRig(t, Options{})
	abandoned := filepath.Join(r.rings, "a~b.0123.ring.part")
	locked := filepath.Join(r.rings, "a~b.4567.ring.part")
	for _, path := range []string{abandoned, locked} {
		if err := os.WriteFile(path, nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	lock, err := ring.OpenLocked(locked)
	if err != nil {
		t.Fatal(err)
	}
	defer lock.Close()
	r.runFor(partAge / 2)
	if _, err := os.Stat(abandoned); err != nil {
		t.Errorf("removed too early: %v", err)
	}
	r.runFor(partAge)
	if _, err := os.Stat(abandoned); err == nil {
		t.Error("the abandoned one is still there")
	}
	if _, err := os.Stat(locked); err != nil {
		t.Errorf("one that is being made: %v", err)
	}
}
