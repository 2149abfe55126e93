package drain

import (
	"errors"
	"testing"
	"time"

	"github.com/cloudprofiler/cloudprofiler/channel"
	"github.com/cloudprofiler/cloudprofiler/handlers"
	"github.com/cloudprofiler/cloudprofiler/handlertable"
	"github.com/cloudprofiler/cloudprofiler/logstore"
	"github.com/cloudprofiler/cloudprofiler/ring"
)

// A program ends while the disk is full. When the disk has space again, even if only a little at
// first, the log gets everything that the program left: events, drops, settings and cells.
func TestProgramThatEndsWhileTheDiskIsFull(t *testing.T) {
	kinds := []string{"id", "counter", "first-last", "null"}
	for wait := time.Duration(0); wait < 3*checkPeriod; wait += DefaultPoll / 2 {
		for space := 0; space < 600; space += 97 {
			disk := &fullDisk{logstore.OS{}, 1 << 40}
			r := newRig(t, Options{FileSystem: disk})
			// The ring has 64 records.
			c := r.open("a/x", handlers.Options{Handler: "id", Policy: "drop", Buffer: "1KiB"})
			r.runFor(2 * checkPeriod)
			var tables []*handlertable.Table
			for _, kind := range kinds {
				tables = append(tables, tableOf(t, "channel: '*', handler: "+kind))
			}
			for _, table := range tables { // the drainer does not write these changes yet
				r.d.SetTable(table)
				for _, w := range r.d.workers {
					w.sources[0].setSettings()
				}
				for id := range uint64(70) { // under handler id, 6 of these are dropped
					c.Log(id)
				}
			}
			c.Close()
			disk.space = space
			r.runFor(wait)
			disk.space = 1 << 40
			r.runFor(2 * time.Second)
			if stats := r.d.Stats(); stats.Finished != 1 {
				t.Fatalf("after %s with space for %d bytes: %+v", wait, space, stats)
			}
			log := readLogs(t, r.logs)["a/x"]
			log.checkIntact(t)
			// The log begins with the program's own settings. The first of the four tables has the
			// same settings, so only the other three tables change something.
			if rows := log.transitions[0]; len(rows) != 4 {
				t.Errorf("after %s with space for %d bytes: transitions %+v, want 4", wait, space,
					rows)
			}
			if log.countRows() != 64 || log.droppedRows(logstore.RingFull) != 6 {
				t.Errorf(
					"after %s with space for %d bytes: %d events and %d dropped, want 64 and 6",
					wait, space, log.countRows(), log.droppedRows(logstore.RingFull))
			}
			if n := len(log.samples); n == 0 || log.samples[n-1].Count != 70 {
				t.Errorf("after %s with space for %d bytes: samples %+v", wait, space, log.samples)
			}
			if n := len(log.firstLasts); n == 0 || log.firstLasts[n-1].Count != 70 {
				t.Errorf("after %s with space for %d bytes: first and last %+v", wait, space,
					log.firstLasts)
			}
			r.d.Close()
		}
	}
}

// If the program counts a dropped event late, the log still counts the event. In this test, the
// event finds the table of drops full, so it extends the last range. But the program counts the
// event only after a drainer has made room in the table and another drainer has started. Until then
// no drainer may treat the range as complete.
func TestDropThatIsCountedLate(t *testing.T) {
	r := newRig(t, Options{})
	c := r.open("a/b", handlers.Options{Policy: "drop", Buffer: "256"}) // the ring has 16 records
	// This consumer releases records, but no ranges of drops.
	before, err := ring.OpenConsumer(c.Path())
	if err != nil {
		t.Fatal(err)
	}
	for i := range uint64(ring.DropsSize) {
		for range 17 {
			c.Log(1)
		}
		if err := before.Release(0, 16*(i+1), 0, 0); err != nil {
			t.Fatal(err)
		}
	}
	before.Close()
	for range 16 {
		c.Log(1)
	}
	// At this moment the next event finds the table full and extends the last range …
	r.advanceClock(DefaultPoll)
	if got := r.statsOf("a/b").Dropped; got != ring.DropsSize {
		t.Fatalf("%d dropped", got)
	}
	r.killDrainer()
	r.startRig(Options{})
	r.runFor(time.Second)
	// … and now the program counts the event.
	patchFile(t, c.Path(), atDropped, word(ring.DropsSize+1))
	r.runFor(time.Second)
	for range 40 {
		c.Log(1)
	}
	want := c.Dropped()
	c.Close()
	r.runFor(time.Second)
	if stats := r.d.Stats(); stats.Finished != 1 || len(r.noticed) > 0 {
		t.Fatalf("%+v, noticed %v", stats, r.noticed)
	}
	log := readLogs(t, r.logs)["a/b"]
	log.checkIntact(t)
	if got := log.droppedRows(logstore.RingFull); got != want || want <= ring.DropsSize+1 {
		t.Errorf("%d dropped, want %d", got, want)
	}
}

// If the drainer has overlooked something in the ring of a dead program, it does not remove the
// ring.
func TestARingIsNotRemovedBeforeItsLogIsComplete(t *testing.T) {
	begin := func(events uint64, fault func(FaultPoint)) (*rig, *handlers.Channel) {
		r := newRig(t, Options{Fault: fault})
		c := r.open("a/b", handlers.Options{Handler: "id", Policy: "drop", Buffer: "1KiB"})
		for id := range events {
			c.Log(id)
		}
		r.runFor(2 * checkPeriod)
		return r, c
	}
	for name, leave := range map[string]func(t *testing.T, s *source, c *handlers.Channel){
		"records": func(_ *testing.T, _ *source, c *handlers.Channel) { c.Log(70) },
		"drops": func(_ *testing.T, _ *source, c *handlers.Channel) {
			for id := range uint64(70) {
				c.Log(70 + id)
			}
		},
		"journal": func(t *testing.T, s *source, c *handlers.Channel) {
			if _, err := s.ring.Apply(channel.Settings{}); err != nil {
				t.Fatal(err)
			}
			c.Log(70)
		},
	} {
		r, c := begin(60, nil)
		s := r.d.workers[0].sources[0]
		leave(t, s, c)
		c.Close()
		if err := s.checkComplete(); !errors.Is(err, ring.ErrDamaged) {
			t.Errorf("with %s in the ring: %v", name, err)
		}
	}
	for name, forget := range map[string]func(s *source, p *shardPlace){
		"nothing":              nil,
		"a record":             func(_ *source, p *shardPlace) { p.head-- },
		"a dropped event":      func(_ *source, p *shardPlace) { p.accounted-- },
		"an event not stored":  func(_ *source, p *shardPlace) { p.skipped = 1 },
		"a count":              func(s *source, _ *shardPlace) { s.counted++ },
		"a last event":         func(s *source, _ *shardPlace) { s.firstLast.Count++ },
		"a last event's place": func(s *source, _ *shardPlace) { s.firstLast.Last.ID++ },
	} {
		r, c := begin(70, func(p FaultPoint) {
			if p == BeforeSeal {
				panic(faultPanic{p})
			}
		})
		c.Close()
		s := r.d.workers[0].sources[0]
		if !diesDuring(func() { r.runFor(time.Second) }) {
			t.Fatal("it does not end")
		}
		if forget != nil {
			forget(s, &s.places[0])
		}
		if err := s.checkComplete(); errors.Is(err, ring.ErrDamaged) != (forget != nil) {
			t.Errorf("with %s forgotten: %v", name, err)
		}
		// The death left the source open: killDrainer must close it.
		r.d.workers[0].sources = []*source{s}
	}
}

// When a ring's file is gone, Stats already counts the ring as finished.
func TestARingThatIsGoneIsCounted(t *testing.T) {
	var r *rig
	removed := 0
	r = newRig(t, Options{Fault: func(p FaultPoint) {
		if p != AfterRemove {
			return
		}
		removed++
		if s := r.d.Stats(); s.Finished != uint64(removed) || s.Total.Events != 10 ||
			len(s.Rings) != 0 {
			t.Errorf("its file is gone, and %d rings are finished, %d events: %+v", s.Finished,
				s.Total.Events, s.Rings)
		}
	}})
	c := r.open("a/b", handlers.Options{})
	logMany(c, 0, 10)
	c.Close()
	r.runFor(time.Second)
	if removed != 1 {
		t.Errorf("%d rings were removed", removed)
	}
}
