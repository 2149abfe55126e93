package coordinator

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/cloudprofiler/cloudprofiler/asm"
	"github.com/cloudprofiler/cloudprofiler/internal/privileged"
	"github.com/cloudprofiler/cloudprofiler/internal/proof"
	"github.com/cloudprofiler/cloudprofiler/internal/seed"
	"github.com/cloudprofiler/cloudprofiler/runs"
	"github.com/cloudprofiler/cloudprofiler/tscratio"
)

// TestPrivilegedLargeFleet opens a run of real processes, which run in namespaces and probe along a
// graph. It kills the server and a client. Then it uses the run's files to relate all pairs.
func TestPrivilegedLargeFleet(t *testing.T) {
	privileged.Need(t)
	r := seed.Random(t)
	nodes := 10
	if size, err := proof.Wanted(); err != nil {
		t.Fatal(err)
	} else if size == proof.Full {
		nodes = 100
	}
	f := startRealFleet(t, r, nodes, true)
	f.waitRegistered()
	f.waitUntil("each node measures two others", func() bool { return f.haveDegrees(2, "") })
	var status RunStatus
	f.question(AskStartRun, RunRequest{Name: "large"}, &status)
	f.waitUntil("the run is open", func() bool {
		f.question(AskRun, nil, &status)
		return status.Phase == PhaseOpen
	})
	begun := asm.Counter()
	f.moreTrains(&status)
	kill(f.server)
	dead := f.clients[r.IntN(nodes)]
	dead.fault = "killed"
	kill(dead.process)
	f.startServer()
	f.waitRegistered()
	f.waitUntil("the nodes measure others instead of the dead one", func() bool {
		return f.haveDegrees(2, dead.job.Node.Name)
	})
	f.waitConnected(dead.job.Node.Name)
	if got := f.check(); got > 2*3*2*nodes {
		t.Errorf("%d bounds: more than of neighbours now and before", got)
	}
	ended := asm.Counter()
	dir := f.finishRun(&status)
	f.wantRelated(r, dir, begun, ended)
}

// waitConnected waits until trains of the run connect all nodes but a dead one. A young graph can
// be in two parts for some seconds.
func (f *realFleet) waitConnected(dead string) {
	f.t.Helper()
	const few = 3 // trains that relate a pair
	var m Matrix
	f.question(AskNodes, nil, &m)
	type pair struct{ from, into string }
	before := map[pair]uint64{}
	for _, p := range m.Pairs {
		before[pair{p.From, p.Into}] = p.Trains
	}
	f.waitUntil("trains of the run connect all nodes", func() bool {
		var m Matrix
		f.question(AskNodes, nil, &m)
		living := slices.DeleteFunc(slices.Clone(f.clients),
			func(c *realClient) bool { return c.job.Node.Name == dead })
		reached := map[string]bool{living[0].job.Node.Name: true}
		for more := true; more; {
			more = false
			for _, p := range m.Pairs {
				if !p.Old && p.Trains >= before[pair{p.From, p.Into}]+few &&
					reached[p.From] != reached[p.Into] {
					reached[p.From], reached[p.Into], more = true, true, true
				}
			}
		}
		return len(reached) == len(living)
	})
}

// haveDegrees reports whether each node has pairs with at least the given number of other nodes.
// One node is an exception, and must have no pair: the one whose name is in the parameter “but”.
func (f *realFleet) haveDegrees(least int, but string) bool {
	f.t.Helper()
	var m Matrix
	f.question(AskNodes, nil, &m)
	with := map[string]int{}
	for _, p := range m.Pairs {
		if !p.Old && p.Trains > 0 {
			with[p.From]++
		}
	}
	return !slices.ContainsFunc(f.clients, func(c *realClient) bool {
		n := c.job.Node.Name
		return n != but && with[n] < least
	}) && with[but] == 0
}

// wantRelated uses a run's files to relate random pairs of nodes, by way of any number of third
// nodes. It compares the bounds with the truth.
func (f *realFleet) wantRelated(r *rand.Rand, dir *runs.Directory, begun, ended uint64) {
	f.t.Helper()
	pairs, missing := dir.Relations()
	if len(missing) > 0 {
		f.t.Logf("missing %v", missing)
	}
	var all []*tscratio.Relation
	for _, p := range pairs {
		if both, err := relations(p, p.Trains()); err == nil {
			all = append(all, both...)
		}
	}
	closure, err := tscratio.NewClosure(all, tscratio.ThirdAgreed)
	if err != nil {
		f.t.Fatal(err)
	}
	truths, names, longer, unknown := f.truths(), f.wellNodes(), 0, 0
	for range 1000 {
		from, into := names[r.IntN(len(names))], names[r.IntN(len(names))]
		instant := begun + r.Uint64N(ended-begun)
		got, err := closure.Translate(from, into, truths[from].Reading(instant))
		if err != nil {
			unknown++
			continue
		}
		truth := truths[into].Reading(instant)
		if from != into && (truth < got.Lo || truth > got.Hi) {
			f.t.Errorf("FALSE: %s in cycles of %s is %v by %v and %v, and %d in truth",
				from, into, got.Interval, got.LoPath, got.HiPath, truth)
		}
		if len(got.LoPath) > 3 {
			longer++
		}
	}
	f.t.Logf("%d relations; of 1,000 bounds %d rest on several third nodes, and %d are not known",
		len(all), longer, unknown)
	if longer < 20 || unknown > 200 {
		f.t.Errorf("of 1,000 bounds %d rest on several third nodes, and %d are not known", longer,
			unknown)
	}
}
