package analysis

import (
	"testing"

	"github.com/cloudprofiler/cloudprofiler/internal/seed"
	"github.com/cloudprofiler/cloudprofiler/internal/simrun"
	"github.com/cloudprofiler/cloudprofiler/runs"
)

// A node that is suspended in the middle of a run counts as two nodes. Each of the two uses only
// its own relations. Events that were logged between the two epochs give no durations.
func TestSuspendedNode(t *testing.T) {
	// The tuples with the ids 100 to 119 are in a segment that belongs to neither epoch.
	const tuples, slept, awake = 300, 100, 120
	rng := seed.Random(t)
	nodes := simrun.Nodes(rng, 2)
	again := simrun.Node{
		Name: "B", Start: rng.Uint64N(1 << 61), Rate: -nodes[1].Rate, Epoch: "epoch-B-again",
	}
	at := func(id uint64) uint64 { return 2*simrun.Hz + id*simrun.Hz/100 }
	const span_cycles = 700_000
	parent := t.TempDir()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	d, err := simrun.Begin(rng, parent, "suspended", nodes, at(0)-simrun.Hz, at(slept))
	must(err)
	first := d.Run().Nodes[1]
	must(d.Update(func(r *runs.Run) {
		now := first
		now.Epoch = again.Epoch
		if !r.Enter(now) {
			t.Error("another epoch is no change")
		}
	}))
	pair, err := simrun.Relate(rng, &nodes[0], &again, at(awake), at(tuples)+simrun.Hz)
	must(err)
	must(d.PutRelation(pair))
	sent, err := simrun.OpenLog(d, &nodes[0], "a/send", "", 0)
	must(err)
	received, err := simrun.OpenLog(d, &nodes[1], "b/recv", "", 1)
	must(err)
	for id := range uint64(tuples) {
		switch id {
		case slept:
			must(received.Enter(&simrun.Node{
				Name: "B", Start: rng.Uint64N(1 << 61), Epoch: "between epoch-B and epoch-B-again",
			}))
		case awake:
			must(received.Enter(&again))
		}
		must(sent.Event(at(id), id))
		must(received.Event(at(id)+span_cycles, id))
	}
	must(sent.Seal())
	must(received.Seal())
	_, err = d.Complete()
	must(err)

	dir := openRun(t, parent, "suspended")
	if pairs, missing := dir.Relations(); len(pairs) != 2 || len(missing) > 0 {
		t.Fatalf("%d relations, missing %v", len(pairs), missing)
	}
	got := map[string]int{}
	a := analyze(t, dir, Options{Reference: "A", Durations: func(r DurationRow) error {
		if r.From == r.To {
			return nil
		}
		truth := int64(nodes[0].Reading(at(r.ID)+span_cycles) - nodes[0].Reading(at(r.ID)))
		if truth+1 < r.Lo || truth-1 > r.Hi {
			t.Errorf("tuple %d took %d, and the answer is %v", r.ID, truth, r.Elapsed)
		}
		if r.From == "a/send" {
			got[r.ToNode]++
		}
		return nil
	}})
	if want := (map[string]int{"B (epoch 1)": slept,
		"B (epoch 2)": tuples - awake}); got[`B (epoch 1)`] != want[`B (epoch 1)`] ||
		got[`B (epoch 2)`] != want[`B (epoch 2)`] || len(got) != 2 {
		t.Errorf("durations by node %v, want %v", got, want)
	}
	if !a.Partial || !mentions(a, "was interrupted during the run") ||
		!mentions(a, "between epoch-B and epoch-B-again") {
		t.Errorf("partial %v, missing %v, findings %v", a.Partial, a.Missing, a.Findings)
	}
	for _, reference := range []string{"B", "B (epoch 2)"} {
		a := analyze(t, dir, Options{Reference: reference})
		if len(a.Spans) != 1 || len(a.Nodes) != 3 {
			t.Errorf("in cycles of %s: %d spans, nodes %+v", reference, len(a.Spans), a.Nodes)
		}
	}
}
