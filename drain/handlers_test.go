package drain

import (
	"testing"
	"time"

	"github.com/cloudprofiler/cloudprofiler/channel"
	"github.com/cloudprofiler/cloudprofiler/handlers"
	"github.com/cloudprofiler/cloudprofiler/logstore"
	"github.com/cloudprofiler/cloudprofiler/ring"
)

func TestCountsAreSampledTogether(t *testing.T) {
	r := newRig(t, Options{})
	a := r.open("a/x", handlers.Options{
		Handler: "counter", Params: channel.Params{"period": "200ms"},
	})
	r.advanceClock(70 * time.Millisecond)
	b := r.openAs("b/x", handlers.Options{Handler: "counter",
		Params: channel.Params{"period": "200ms"}}, handlers.OpenShared)
	for i := range 100 {
		for range i {
			a.Log(1)
			b.Log(1)
			b.Log(2)
		}
		r.advanceClock(10 * time.Millisecond)
	}
	r.advanceClock(DefaultPoll)
	a.Log(1) // an event after the last sample
	a.Close()
	b.Close()
	r.runFor(200 * time.Millisecond)
	logs := readLogs(t, r.logs)
	x, y := logs["a/x"], logs["b/x"]
	x.checkIntact(t)
	y.checkIntact(t)
	const all = 99 * 100 / 2
	if last := x.samples[len(x.samples)-1]; last.Count != all+1 ||
		y.samples[len(y.samples)-1].Count != 2*all {
		t.Errorf("last counts %d and %d, want %d and %d", last.Count,
			y.samples[len(y.samples)-1].Count, all+1, 2*all)
	}
	if n := len(y.samples); n < 5 || n > 8 {
		t.Errorf("%d samples in a second of 200 ms each", n)
	}
	instants := map[uint64]uint64{}
	for i, s := range x.samples {
		instants[s.Counter] = s.Count
		if i > 0 && (s.Counter <= x.samples[i-1].Counter || s.Count < x.samples[i-1].Count) {
			t.Errorf("sample %d: %+v after %+v", i, s, x.samples[i-1])
		}
	}
	together := 0
	for _, s := range y.samples {
		if count, ok := instants[s.Counter]; ok {
			together++
			if s.Count != 2*count {
				t.Errorf("at one instant %d and %d were counted", count, s.Count)
			}
		}
	}
	if together < 4 {
		t.Errorf("%d samples share an instant", together)
	}
}

func TestCountOfAChannelThatGetsAnotherHandler(t *testing.T) {
	r := newRig(t, Options{})
	c := r.open("a/b", handlers.Options{Handler: "counter"})
	r.advanceClock(checkPeriod)
	for range 17 {
		c.Log(0)
	}
	applySettings(t, r, channel.Settings{Kind: channel.Buffered})
	r.runFor(300 * time.Millisecond)
	log := readLogs(t, r.logs)["a/b"]
	if n := len(log.samples); n == 0 || log.samples[n-1].Count != 17 {
		t.Errorf("samples %+v, want a last one of 17", log.samples)
	}
	if len(r.d.sampler.all) != 0 {
		t.Error("it is still sampled")
	}
}

// If the sampler cannot read the count of a ring, it does not try again until the ring's worker has
// seen the error.
func TestSamplerWaitsForNoRingThatFailed(t *testing.T) {
	r := newRig(t, Options{})
	r.open("a/b", handlers.Options{Handler: "counter"})
	r.advanceClock(checkPeriod)
	r.d.sampler.all[0].err = ring.ErrShrunk
	now := r.clock + time.Minute
	if next := r.d.sampler.takeDueSamples(now); next <= now {
		t.Errorf("the next sweep is %v from now", next-now)
	}
}

// applySettings sets the settings of the only ring.
func applySettings(t *testing.T, r *rig, settings channel.Settings) {
	t.Helper()
	if _, err := r.d.workers[0].sources[0].ring.Apply(settings); err != nil {
		t.Fatal(err)
	}
}

func TestFirstAndLast(t *testing.T) {
	r := newRig(t, Options{})
	c := r.open("a/b", handlers.Options{Handler: "first-last"})
	r.runFor(1500 * time.Millisecond)
	for i := range uint64(10) {
		c.Log(100 + i)
	}
	r.runFor(3 * time.Second)
	for i := range uint64(10) {
		c.Log(200 + i)
	}
	c.Log(channel.Poison)
	c.Close()
	r.runFor(200 * time.Millisecond)
	log := readLogs(t, r.logs)["a/b"]
	log.checkIntact(t)
	if len(log.firstLasts) != 2 {
		t.Fatalf("%+v, want a row for each change", log.firstLasts)
	}
	first, last := log.firstLasts[0], log.firstLasts[1]
	if first.Count != 10 || first.FirstID != 100 || first.LastID != 109 || first.Poison != 0 {
		t.Errorf("%+v", first)
	}
	if last.Count != 20 || last.FirstID != 100 || last.FirstCounter != first.FirstCounter ||
		last.LastID != 209 || last.Poison < last.LastCounter {
		t.Errorf("%+v", last)
	}
}

func TestFlightRecorder(t *testing.T) {
	for _, size := range []uint64{1 << 10, 1 << 18} { // less than a block, and four blocks
		r := newRig(t, Options{})
		c := r.open("a/b", handlers.Options{
			Handler: "buffered", Policy: "overwrite", Buffer: "16KiB",
		})
		if size > 1<<10 {
			c = r.open("a/c", handlers.Options{
				Handler: "buffered", Policy: "overwrite", Buffer: "4MiB",
			})
		}
		other := r.open("z/z", handlers.Options{Handler: "buffered", Policy: "overwrite"})
		other.Log(1)
		name := c.Name().String()
		var id uint64
		log := func(n uint64) {
			for range n {
				c.Log(id)
				id++
			}
		}
		check := func(want ...logstore.Drop) {
			t.Helper()
			k := readLogs(t, r.logs)[name]
			k.checkIntact(t)
			at, gone := uint64(0), 0
			for _, e := range k.events[0] {
				if gone < len(want) && at == want[gone].At {
					at += want[gone].Count
					gone++
				}
				if e.ID != at {
					t.Fatalf("event %d where %d should be; drops %+v", e.ID, at, k.drops[0])
				}
				at++
			}
			if at != id || len(k.drops[0]) != len(want) {
				t.Fatalf("the log ends at %d, want %d; drops %+v", at, id, k.drops[0])
			}
		}
		snapshot := func() {
			t.Helper()
			if err := snapshotNow(r, func(n channel.Name) bool {
				return n.String() == name
			}); err != nil {
				t.Fatal(err)
			}
		}
		log(size / 2)
		r.runFor(2 * time.Second)
		if k := readLogs(t, r.logs)[name]; k.countRows() > 0 {
			t.Fatalf("%d events were drained unasked", k.countRows())
		}
		snapshot()
		check()
		snapshot()
		check()
		log(3 * size)
		snapshot()
		one := logstore.Drop{At: size / 2, Count: 2*size + 1}
		check(one)
		log(size / 2) // half of the records that the ring has now are in the log already
		snapshot()
		check(one)
		log(2 * size)
		c.Close()
		r.runFor(200 * time.Millisecond)
		check(one, logstore.Drop{At: 4 * size, Count: size + 1})
		if k := readLogs(t, r.logs)["z/z"]; k.countRows() > 0 {
			t.Error("a channel that did not match was dumped")
		}
	}
}

// snapshotNow does the same as Snapshot, for a drainer without goroutines: it also does the
// worker's part.
func snapshotNow(r *rig, match func(channel.Name) bool) error {
	done := make(chan error)
	go func() { done <- r.d.Snapshot(match) }()
	for {
		select {
		case err := <-done:
			return err
		default:
			r.d.workers[0].runPass(r.clock)
		}
	}
}
