package tscclient

import (
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/cloudprofiler/cloudprofiler/internal/proof"
)

// A node that is probed twice a second and a node that probes cost a core next to nothing. All that
// a client does beside its trains is included: scheduling, judging, pruning. Both nodes are in this
// process, so its share is twice that of one node.
func TestBarProbingByItself(t *testing.T) {
	size := proof.Begin(t)
	span := 6 * time.Second
	if size == proof.Full {
		span = time.Minute
	}
	a := startNode(t, "a", func(c *Config) {
		c.Pace = Pace{
			Target:  time.Nanosecond,
			Fastest: 500 * time.Millisecond, Slowest: 500 * time.Millisecond,
		}
		c.Budget = Budget{TrainsPerSecond: 2}
	})
	b := startNode(t, "b", nil)
	before, begin := processTime(t), time.Now()
	if err := a.SetPeers([]Peer{b.peer()}, a.Config().Manner, a.Config().Budget); err != nil {
		t.Fatal(err)
	}
	time.Sleep(span) // the measurement
	share := float64(processTime(t)-before) / float64(time.Since(begin)) / 2
	s := a.Stats()
	t.Logf("%d trains in %v, %.3f %% of a core for each node; in the trains' thread only %.3f %%",
		s.Trains, span, 100*share, 100*s.Cost.CPU.Seconds()/time.Since(begin).Seconds())
	if want := uint64(2*span.Seconds()) - 2; s.Trains < want || s.Failed > 0 {
		t.Errorf("%d trains, %d failed, want %d", s.Trains, s.Failed, want)
	}
	proof.Check(t, proof.Bar{
		Name: "probing twice a second", Figure: 100 * share, Limit: 0.3,
		Unit: "% of a core, either node", Timing: true,
	})
}

func processTime(t *testing.T) time.Duration {
	t.Helper()
	var u unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &u); err != nil {
		t.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
