package drain

import (
	"testing"
	"time"

	"github.com/cloudprofiler/cloudprofiler/handlers"
	"github.com/cloudprofiler/cloudprofiler/logstore"
)

func TestRateBucket(t *testing.T) {
	var r rowRate
	if n := r.allowRows(0, 1e9); n != 1e9 {
		t.Errorf("without a rate %d rows are kept", n)
	}
	r.setRate(100)
	now := 5 * time.Second
	for i, step := range []struct {
		after      time.Duration
		rows, want uint64
	}{
		{0, 150, 150}, // a burst with the rows of two seconds
		{0, 100, 50},
		{900 * time.Millisecond, 10, 0}, // refilled only once per second
		{100 * time.Millisecond, 300, 100},
		{1500 * time.Millisecond, 300, 150},
		{time.Hour, 300, 200},
		{1000 * time.Millisecond, 100, 100}, // only what the rate allows, without a burst
		{1000 * time.Millisecond, 100, 100},
	} {
		now += step.after
		if got := r.allowRows(now, step.rows); got != step.want {
			t.Errorf("step %d: %d of %d rows, want %d", i, got, step.rows, step.want)
		}
	}
	r.setRate(100) // not a change, so the bucket is not refilled
	if got := r.allowRows(now, 1); got != 0 {
		t.Error("the same rate filled the bucket")
	}
}

// A new rate in the table also applies to channels that are already open, and limits their logs.
// The log counts the rows above the rate, each range at its place, even if the drainer dies.
func TestRateBoundsTheLog(t *testing.T) {
	for _, handler := range []string{"id", "buffered", "link"} {
		t.Run(handler, func(t *testing.T) {
			r := newRig(t, Options{})
			c := r.open("a/x", handlers.Options{Handler: handler, Policy: "drop"})
			other := r.open("b/x", handlers.Options{Handler: "id", Policy: "drop"})
			var id uint64
			burst := func(n uint64) {
				for range n {
					if handler == "link" {
						c.Link(id, id)
					} else {
						c.Log(id)
					}
					other.Log(id)
					id++
				}
			}
			burst(500)
			r.runFor(2 * time.Second)
			if n := r.statsOf("a/x"); n.OverRate != 0 || n.Rows < 500 {
				t.Fatalf("before there is a rate: %+v", n)
			}
			r.d.SetTable(tableOf(t, "channel: a/*, handler: "+handler+", rate: 100"))
			r.runFor(2 * checkPeriod)
			const seconds = 10
			for range seconds * 5 {
				burst(200)
				r.runFor(200 * time.Millisecond)
			}
			r.runFor(time.Second)
			over := r.statsOf("a/x").OverRate
			if kept := seconds*5*200 - over; kept > (seconds+1+2)*100 || kept < seconds*100 {
				t.Errorf("in %d s %d rows of %d were kept at 100 a second", seconds, kept,
					seconds*5*200)
			}
			if n := r.statsOf("b/x").OverRate; n != 0 {
				t.Errorf("%d rows of another channel were over the rate", n)
			}
			burst(1000)
			r.runFor(2 * time.Second)
			r.killDrainer()
			r.startRig(Options{Table: tableOf(t, "channel: a/*, handler: "+handler+", rate: 100")})
			burst(1000)
			r.runFor(2 * time.Second)
			if handler != "link" { // a link channel accepts no other handler
				r.d.SetTable(tableOf(t, "channel: a/*, handler: id"))
			} else {
				r.d.SetTable(tableOf(t, "channel: b/*, handler: id"))
			}
			r.runFor(2 * checkPeriod)
			before := r.statsOf("a/x").OverRate
			burst(1000)
			r.runFor(2 * time.Second)
			if n := r.statsOf("a/x").OverRate; n != before {
				t.Errorf("%d rows were over a rate that is taken away", n-before)
			}
			c.Close()
			other.Close()
			r.runFor(2 * time.Second)
			logs := readLogs(t, r.logs)
			k := logs["a/x"]
			k.checkIntact(t)
			if gone := k.droppedRows(logstore.OverRate); uint64(k.countRows())+gone != id ||
				gone < over+before || len(k.drops[0]) < 10 {
				t.Errorf(
					"%d rows in the log and %d over the rate (%d ranges), of %d; stats: %d and %d",
					k.countRows(), gone, len(k.drops[0]), id, over, before)
			}
			if n := k.droppedRows(logstore.Damaged); n > 0 {
				t.Errorf("%d rows are missing after the death", n)
			}
			if n := logs["b/x"].countRows(); uint64(n) != id {
				t.Errorf("the other channel has %d of %d", n, id)
			}
		})
	}
}

// If a limit on disk space is reached, the log counts all rows as not stored because of that limit.
// It counts none of them as above the rate.
func TestLimitBeforeRate(t *testing.T) {
	r := newRig(t, Options{MaxBytes: 1, Table: tableOf(t, "channel: '*', handler: id, rate: 1")})
	c := r.open("a/x", handlers.Options{Handler: "buffered"})
	r.runFor(2 * checkPeriod)
	logMany(c, 0, 100)
	r.runFor(time.Second)
	if n := r.statsOf("a/x"); n.NotStored != 100 || n.OverRate != 0 {
		t.Errorf("%+v", n)
	}
}
