package runs_test

import (
	"math/rand/v2"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/cloudprofiler/cloudprofiler/internal/simrun"
	"github.com/cloudprofiler/cloudprofiler/runs"
)

// In a chain of three nodes, all tuples pass all nodes. Two other nodes share a few tuples with
// each other, and none with the chain.
func TestTraffic(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 0))
	nodes := simrun.Nodes(rng, 5)
	const chain, few = 1000, 50
	var channels []simrun.Channel
	for i := range nodes {
		c := simrun.Channel{Node: i, Name: "actor/x", Handler: "id"}
		first, count := uint64(1), chain
		if i >= 3 {
			first, count = 1<<40, few
		}
		for k := range uint64(count) {
			c.Records = append(c.Records, simrun.Record{Time: 3*simrun.Hz + 1000*k, ID: first + k})
		}
		channels = append(channels, c)
	}
	dir := t.TempDir()
	if err := simrun.Write(rng, dir, "run", nodes, channels); err != nil {
		t.Fatal(err)
	}
	run, err := runs.Open(filepath.Join(dir, "run"))
	if err != nil {
		t.Fatal(err)
	}
	defer run.Close()
	name := func(i int) string { return nodes[i].Name }
	want := []runs.Traffic{{name(0), name(1), chain}, {name(0), name(2), chain},
		{name(1), name(2), chain}, {name(3), name(4), few}}
	if d := cmp.Diff(want, run.Traffic()); d != "" {
		t.Error(d)
	}
}
