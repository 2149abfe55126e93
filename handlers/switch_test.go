package handlers

import (
	"fmt"
	"runtime"
	"sync/atomic"
	"testing"

	"github.com/cloudprofiler/cloudprofiler/channel"
	"github.com/cloudprofiler/cloudprofiler/internal/seed"
	"github.com/cloudprofiler/cloudprofiler/ring"
)

// While the drainer changes settings and one writer logs, the journal says of each change of
// settings exactly which record is the first to which the change applies.
func TestSwitchingUnderLoad(t *testing.T) {
	draw := seed.Random(t)
	kinds := []channel.Settings{
		{}, {Kind: channel.Identity}, {Kind: channel.Buffered}, {Kind: channel.Downsample, A: 3},
		{Kind: channel.Downsample, A: 100},
		{Kind: channel.XoY, A: 2, B: 5}, {Kind: channel.XoY, A: 1, B: 1000},
		{Kind: channel.Counter, A: channel.DefaultPeriod_ns}, {Kind: channel.FirstLast},
	}
	for _, writer := range allWriters {
		t.Run(writer.name, func(t *testing.T) {
			c := openTest(t, writer.many,
				Options{Handler: "id", Stamp: writer.stamp, Buffer: "8KiB"})
			d, err := newDrain(c.Path())
			if err != nil {
				t.Fatal(err)
			}
			defer d.consumer.Close()
			var stop atomic.Bool
			logged := make(chan uint64)
			go func() {
				id := uint64(0)
				for ; !stop.Load(); id++ {
					c.Log(id)
				}
				logged <- id
			}()
			// Change settings again as soon as the journal has the previous change.
			for range 300 {
				word, err := d.consumer.Apply(kinds[draw.IntN(len(kinds))])
				if err != nil {
					t.Fatal(err)
				}
				for len(d.journal) == 0 || d.journal[len(d.journal)-1].Word != word {
					if _, err := d.drainOnce(false); err != nil {
						t.Fatal(err)
					}
					runtime.Gosched()
				}
				for range draw.IntN(5) {
					if _, err := d.drainOnce(false); err != nil {
						t.Fatal(err)
					}
				}
			}
			stop.Store(true)
			t.Logf("%d calls", <-logged)
			c.Close()
			if err := d.finishDrain(); err != nil {
				t.Fatal(err)
			}
			for _, e := range d.journal {
				if e.Skipped > 0 {
					t.Errorf("the journal lacks %d entries before %+v", e.Skipped, e)
				}
			}
			if writer.many {
				// The entry's field From is a sequence number of one shard, but the writer may have
				// used another shard.
				return
			}
			if err := checkRecords(d, d.takenRecords[0]); err != nil {
				t.Fatal(err)
			}
		})
	}
}

// checkRecords checks that the records between two journal entries obey the settings of the first
// of the two entries.
func checkRecords(d *drain, records []ring.Record) error {
	for k, e := range d.journal {
		end := uint64(len(records))
		if k+1 < len(d.journal) {
			end = d.journal[k+1].From
		}
		if e.From > end || end > uint64(len(records)) {
			return fmt.Errorf("journal entry %d holds from %d to %d of %d",
				k, e.From, end, len(records))
		}
		span := records[e.From:end]
		if k > 0 && e.From > 0 && len(span) > 0 && span[0].ID <= records[e.From-1].ID {
			return fmt.Errorf("%v from record %d on: id %d after %d",
				e.Settings, e.From, span[0].ID, records[e.From-1].ID)
		}
		for i, r := range span {
			want, next := true, uint64(1)
			switch s := e.Settings; s.Kind {
			case channel.Downsample:
				next = s.A
			case channel.XoY:
				want = r.ID%s.B < s.A
				if r.ID%s.B == 0 && i > 0 {
					next = s.B - s.A + 1
				}
			case channel.Identity, channel.Buffered:
			default:
				want = false
			}
			if !want || i > 0 && r.ID != span[i-1].ID+next {
				return fmt.Errorf("%v from record %d on: record %d has id %d",
					e.Settings, e.From, e.From+uint64(i), r.ID)
			}
			if r.Counter+channel.UnorderedSlack_cycles < e.Counter {
				return fmt.Errorf("%v from counter %d on: record %d at %d", e.Settings, e.Counter,
					e.From+uint64(i), r.Counter)
			}
		}
	}
	return nil
}

// The first call after a change of settings obeys the new settings, with many writers too. After a
// goroutine has seen new settings, no goroutine uses older ones.
func TestChangeHoldsFromTheNextCall(t *testing.T) {
	for _, writer := range allWriters {
		c := openTest(t, writer.many, Options{Handler: "id", Stamp: writer.stamp, Policy: "drop"})
		d, err := newDrain(c.Path())
		if err != nil {
			t.Fatal(err)
		}
		defer d.consumer.Close()
		want := 0
		for round := range 200 {
			s := []channel.Settings{{}, {Kind: channel.Identity}}[round%2]
			if _, err := d.consumer.Apply(s); err != nil {
				t.Fatal(err)
			}
			done := make(chan bool)
			go func() { // another goroutine for each call
				c.Log(uint64(round))
				done <- true
			}()
			<-done
			if s.Kind == channel.Identity {
				want++
			}
			if _, err := d.drainOnce(false); err != nil {
				t.Fatal(err)
			}
			got := 0
			for _, shard := range d.takenRecords {
				got += len(shard)
			}
			if got != want {
				t.Fatalf("%s: %d records after change %d, want %d", writer.name, got, round, want)
			}
		}
	}
}
