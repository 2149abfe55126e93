package replay_test

import (
	"context"
	"fmt"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/cloudprofiler/cloudprofiler/internal/proof"
	"github.com/cloudprofiler/cloudprofiler/internal/seed"
	"github.com/cloudprofiler/cloudprofiler/internal/simrun"
	"github.com/cloudprofiler/cloudprofiler/replay"
	"github.com/cloudprofiler/cloudprofiler/runs"
)

// However many logs a run has, few are open at the same time.
func TestManyLogsTakeFewDescriptors(t *testing.T) {
	const nodes, perLog, descriptors = 4, 5, 256
	logs := 300 // making each takes the disk some milliseconds
	if size, err := proof.Wanted(); err != nil {
		t.Fatal(err)
	} else if size == proof.Full {
		logs = 1000
	}
	channels := make([]simrun.Channel, logs)
	for i := range channels {
		channels[i].Node = i % nodes
		channels[i].Name = fmt.Sprintf("a#%d/send", i)
		for j := range perLog {
			channels[i].Records = append(channels[i].Records, simrun.Record{
				Time: simrun.Hz + uint64(j*logs+i)*1000, ID: uint64(i),
			})
		}
	}
	rng := seed.Random(t)
	parent := t.TempDir()
	if err := simrun.Write(rng, parent, "r", simrun.Nodes(rng, nodes), channels); err != nil {
		t.Fatal(err)
	}
	var before unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &before); err != nil {
		t.Fatal(err)
	}
	few := before
	few.Cur = descriptors
	if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &few); err != nil {
		t.Fatal(err)
	}
	defer unix.Setrlimit(unix.RLIMIT_NOFILE, &before)

	dir, err := runs.Open(parent + "/r")
	if err != nil {
		t.Fatal(err)
	}
	defer dir.Close()
	r, err := replay.Open(dir, replay.Options{Reference: "A"})
	if err != nil {
		t.Fatal(err)
	}
	var events uint64
	if _, err := r.Each(context.Background(), func(*replay.Event) error {
		events++
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	if events != uint64(logs*perLog) || len(r.Unusable) > 0 {
		t.Errorf("%d events of %d, unusable: %v", events, logs*perLog, r.Unusable)
	}
	if err := r.Close(); err != nil {
		t.Error(err)
	}
}
