package analysis

import (
	"fmt"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/cloudprofiler/cloudprofiler/internal/proof"
	"github.com/cloudprofiler/cloudprofiler/internal/seed"
	"github.com/cloudprofiler/cloudprofiler/internal/simrun"
)

// No matter how many logs a run has, few are open at the same time.
func TestManyLogsTakeFewDescriptors(t *testing.T) {
	seed.NotUnderRace(t, "other tests run the same code side by side")
	logs, nodes := max(300, 1000/seed.Share()), 4
	if size, err := proof.Wanted(); err != nil {
		t.Fatal(err)
	} else if size == proof.Full {
		logs, nodes = 10_000, 20
	}
	instances := logs / 2
	var channels []simrun.Channel
	for i := range logs {
		name, instance := "a#%d/send", i/2%1000
		if i%2 == 1 {
			name = "b#%d/recv"
		}
		channels = append(channels, simrun.Channel{Node: (i + i/2000) % nodes,
			Name: fmt.Sprintf(name, instance)})
	}
	const perInstance, way = 10, 200_000
	tuples := instances * perInstance
	for id := range tuples {
		at := simrun.Hz + uint64(id)*1000
		from, to := &channels[id%instances*2], &channels[(id*7)%instances*2+1]
		from.Records = append(from.Records, simrun.Record{Time: at, ID: uint64(id)})
		to.Records = append(to.Records, simrun.Record{Time: at + way, ID: uint64(id)})
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
	few.Cur = 256
	if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &few); err != nil {
		t.Fatal(err)
	}
	defer unix.Setrlimit(unix.RLIMIT_NOFILE, &before)
	a := analyze(t, openRun(t, parent, "r"), Options{})
	if len(a.Channels) != logs || len(a.Missing) > 0 || len(a.Spans) != 1 ||
		a.Spans[0].All.Count != uint64(tuples) {
		t.Fatalf("%d channels of %d, %d spans, missing %.300v, findings %.300v", len(a.Channels),
			logs, len(a.Spans), fmt.Sprint(a.Missing), fmt.Sprint(a.Findings))
	}
	if all := a.Spans[0].All; all.Min.Lo_cycles > way || all.Max.Hi_cycles < way {
		t.Errorf("durations of %d cycles are said to be %v to %v", way, all.Min, all.Max)
	}
}
