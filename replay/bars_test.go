package replay_test

import (
	"context"
	"fmt"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/cloudprofiler/cloudprofiler/internal/proof"
	"github.com/cloudprofiler/cloudprofiler/internal/simrun"
	"github.com/cloudprofiler/cloudprofiler/replay"
	"github.com/cloudprofiler/cloudprofiler/runs"
)

// TestBarClocksOfRun computes the clocks of a long run on four nodes from its logs.
func TestBarClocksOfRun(t *testing.T) {
	tuples := 250_000
	if proof.Begin(t) == proof.Full {
		tuples = 2_500_000
	}
	dir := t.TempDir()
	if err := simrun.Chain(1, dir, "long", 4, tuples, 100_000); err != nil {
		t.Fatal(err)
	}
	d, err := runs.Open(filepath.Join(dir, "long"))
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	o := replay.Options{Reference: "A"}
	for i := range 3 {
		o.Edges = append(o.Edges, [2]string{
			fmt.Sprintf("stage%d/recv", i), fmt.Sprintf("stage%d/recv", i+1),
		})
	}
	var rates []float64
	var s *replay.Summary
	for range 3 {
		r, err := replay.Open(d, o)
		if err != nil {
			t.Fatal(err)
		}
		start := processTime(t)
		if s, err = r.Each(context.Background(), nil); err != nil {
			t.Fatal(err)
		}
		rates = append(rates, float64(s.Events)/1e6/(processTime(t)-start).Seconds())
		if err := r.Close(); err != nil {
			t.Fatal(err)
		}
	}
	t.Logf("%+v", *s)
	proof.Check(t, proof.Bar{
		Name:  "clocks of a run on four nodes, computed from its logs",
		Limit: 2, AtLeast: true, Unit: "million events/s of a core", Timing: true,
	}.From(rates), proof.Bar{
		Name: "events of that run whose clocks were not computed", Figure: float64(
			uint64(4*tuples) - s.Events), Unit: "events",
	}, proof.Bar{
		Name: "largest number of that run's events in memory", Figure: float64(s.Window),
		Limit: 1000, Unit: "events",
	})
}

// processTime is how long cores have worked for this process.
func processTime(t *testing.T) time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		t.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
