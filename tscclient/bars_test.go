package tscclient

import (
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/cloudprofiler/cloudprofiler/internal/proof"
)

// TestBarProbingByItself measures how much of one core a node uses if it probes another node twice
// a second on its own. The figure includes all work of the client: trains, scheduling, computing
// bounds and pruning. Both nodes run in this process: one probes, the other answers. So the figure
// is half of what the process uses.
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
	time.Sleep(span) // the process is measured during this time
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
