package drain

import (
	"fmt"
	"strings"
	"testing"

	"github.com/cloudprofiler/cloudprofiler/channel"
	"github.com/cloudprofiler/cloudprofiler/handlers"
	"github.com/cloudprofiler/cloudprofiler/internal/seed"
	"github.com/cloudprofiler/cloudprofiler/logstore"
)

// idsByEpoch returns the epoch of each id in the log. It checks that each segment begins where the
// segment before it ended.
func idsByEpoch(t *testing.T, dir string) map[uint64]string {
	t.Helper()
	segments, err := logstore.Segments(dir)
	if err != nil {
		t.Fatal(err)
	}
	epochs := map[uint64]string{}
	for _, segment := range segments {
		f, err := logstore.OpenFile(segment.Path)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		for cursor := f.Of(logstore.Events); ; {
			b, err := cursor.Next()
			if err != nil {
				break
			}
			for _, e := range b.Events {
				if other, twice := epochs[e.ID]; twice {
					t.Errorf("event %d is in %q and in %q", e.ID, other, f.Header().Epoch)
				}
				epochs[e.ID] = f.Header().Epoch
			}
		}
	}
	return epochs
}

// If a segment names one epoch, all its rows were logged in that epoch, no matter when the epoch
// changes or the drainer dies. If a segment names two epochs, its rows were logged in one of these
// epochs or between them.
func TestSegmentsAreOfOneEpoch(t *testing.T) {
	rng := seed.Random(t)
	for round := range 12 {
		number := 1
		name := func() string { return fmt.Sprintf("epoch-%d", number) }
		asked := func() {}
		o := Options{Epoch: func() string { asked(); return name() }, SegmentBytes: 1 << 12}
		r := newRig(t, o)
		policy := channel.Block
		if round%3 == 2 {
			policy = channel.Overwrite
		}
		c := r.open("a/b", handlers.Options{
			Handler: "id", Policy: policy.String(), Buffer: "64KiB",
		})
		r.advanceClock(DefaultPoll)
		truth := map[uint64]string{}
		log := func(n int) {
			for range n {
				id := uint64(len(truth) + 1)
				c.Log(id)
				truth[id] = name()
			}
		}
		dump := func() {
			for _, w := range r.d.workers {
				for _, s := range w.sources {
					if policy != channel.Overwrite {
						continue
					}
					if err := s.dumpRecorder(w); err != nil {
						t.Fatal(err)
					}
				}
			}
		}
		log(1)
		dump()
		r.runFor(blockHold)
		// certain has the ids that were logged after the log had entered the present epoch.
		certain := map[uint64]bool{}
		for range 40 {
			asked = func() {
				// The program continues and the epoch changes while the drainer writes a block.
				if rng.IntN(4) == 0 {
					log(rng.IntN(5))
					number++
					log(rng.IntN(5))
				}
			}
			switch rng.IntN(6) {
			case 0, 1:
				log(rng.IntN(300))
			case 2, 3:
				dump()
				r.runFor(4 * DefaultPoll)
			case 4:
				number++
			case 5:
				r.killDrainer()
				if rng.IntN(2) == 0 {
					log(rng.IntN(100))
					number += rng.IntN(2)
				}
				r.startRig(o)
				r.advanceClock(DefaultPoll)
			}
			asked = func() {}
			// Let the rows that may be older go to the log first, and then log new ones.
			if rng.IntN(8) == 0 {
				for range 2 {
					log(1)
					r.runFor(2 * blockHold)
					dump()
					r.runFor(2 * blockHold)
				}
				from := len(truth)
				log(20)
				r.runFor(2 * blockHold)
				dump()
				for id := from + 1; id <= len(truth); id++ {
					certain[uint64(id)] = true
				}
			}
		}
		c.Close()
		r.runFor(3 * blockHold)
		told := idsByEpoch(t, r.logs)
		maybe := func(between string, truth string) bool {
			var from, to, is int
			fmt.Sscanf(between, "between epoch-%d and epoch-%d", &from, &to)
			fmt.Sscanf(truth, "epoch-%d", &is)
			return from <= is && is <= to
		}
		for id, want := range truth {
			got, there := told[id]
			switch {
			case !there && policy == channel.Block:
				t.Errorf("event %d is in no log", id)
			case there && got != want && (!strings.HasPrefix(got, between) || certain[id]):
				t.Errorf("event %d of %s is in a segment of %q", id, want, got)
			case there && strings.HasPrefix(got, between) && !maybe(got, want):
				t.Errorf("event %d of %s is in a segment of %q", id, want, got)
			}
		}
		if policy == channel.Block {
			for _, k := range readLogs(t, r.logs) {
				k.checkIntact(t)
			}
		}
		if t.Failed() {
			t.Fatalf("round %d", round)
		}
	}
}
