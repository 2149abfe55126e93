package coordinator

import (
	"fmt"
	"testing"
	"time"

	"github.com/cloudprofiler/cloudprofiler/control"
	"github.com/cloudprofiler/cloudprofiler/internal/seed"
	"github.com/cloudprofiler/cloudprofiler/runs"
	"github.com/cloudprofiler/cloudprofiler/tscratio"
)

// startAgain ends the client's process and starts a new process, which measures its counter again.
func (c *fakeClient) startAgain() {
	f := c.f
	c.state = clientKilled
	c.life++
	f.run(f.config.Dead+time.Second, nil) // until then, the old process still owns the name
	c.report, c.unacked, c.probing = 0, nil, nil
	c.register.Instance = fmt.Sprintf("i%d", f.r.Uint64())
	c.register.Nominal_hz = 2.6e9 + f.r.Uint64N(10_000)
	c.register.CoreSlack_cycles = 30 + f.r.Uint64N(60)
	c.register.Quantum_cycles = 1 + f.r.Uint64N(3)
	c.state = clientRunning
	c.connect()
}

// ackedTrains contains, unpruned, all trains that the server acknowledged.
type ackedTrains map[pairKey]*tscratio.Pair

// add adds the trains of a report. It describes each counter with the largest quantum and core
// slack that any process reports in these tests.
func (all ackedTrains) add(t *testing.T, by *fakeClient, m *control.Trains) {
	a, b, starter := by.register.Name, m.Peer, tscratio.StartedByA
	key := pairKey{a, b, m.Epoch, m.PeerEpoch}
	if b < a {
		key, starter = pairKey{b, a, m.PeerEpoch, m.Epoch}, tscratio.StartedByB
	}
	p := all[key]
	if p == nil {
		wide := tscratio.Node{Nominal_hz: 2.6e9, Quantum_cycles: 3, CoreSlack_cycles: 89}
		nodes := [2]tscratio.Node{wide, wide}
		nodes[0].Name, nodes[0].Epoch = key.a, key.epochA
		nodes[1].Name, nodes[1].Epoch = key.b, key.epochB
		var err error
		p, err = tscratio.NewPair(nodes[0], nodes[1], tscratio.DefaultAssumptions())
		if err != nil {
			t.Fatal(err)
		}
		all[key] = p
	}
	for _, train := range m.Trains {
		if err := p.Add(trainOf(train, nil, starter)); err != nil {
			t.Fatal(err)
		}
	}
}

// keptTrain identifies a train by the properties that pruning does not change.
type keptTrain struct {
	by        tscratio.Starter
	best      tscratio.Exchange
	gathered  int
	exchanges int
	b, a      tscratio.Interval
}

func trainsOf(p *tscratio.Pair) (all map[keptTrain]int) {
	all = map[keptTrain]int{}
	for t := range p.Kept() {
		all[keptTrain{t.By, t.Best, t.Gathered, t.Exchanges, t.B, t.A}] = len(t.Constraints)
	}
	return all
}

// heldRun is the result of comparing a finished run with everything that the server acknowledged
// while the run was open.
type heldRun struct {
	trains, lost     int // a train is lost if the run has fewer than two of its constraints
	queries, outside int // number of bounds that were computed, and that miss the truth
}

func (h *heldRun) add(other heldRun) {
	h.trains, h.lost = h.trains+other.trains, h.lost+other.lost
	h.queries, h.outside = h.queries+other.queries, h.outside+other.outside
}

func (h heldRun) want(t *testing.T) {
	t.Helper()
	if h.trains == 0 || h.queries == 0 {
		t.Errorf("%+v: the test sees nothing", h)
	}
	if h.lost > 0 || h.outside > 0 {
		t.Errorf("%+v: trains that were acknowledged are lost, or bounds are false", h)
	}
}

// compareWithRun compares all acknowledged trains with a finished run, and computes a number of
// bounds of each pair.
func (f *fleet) compareWithRun(dir *runs.Directory, all ackedTrains, perPair int) (h heldRun) {
	f.t.Helper()
	pairs, missing := dir.Relations()
	if len(missing) > 0 {
		f.t.Errorf("missing: %v", missing)
	}
	finished := map[pairKey]*tscratio.Pair{}
	for _, p := range pairs {
		finished[pairKey{p.A.Name, p.B.Name, p.A.Epoch, p.B.Epoch}] = p
	}
	for key, want := range all {
		got := finished[key]
		if got == nil {
			f.t.Errorf("%v: no relation", key)
			continue
		}
		there := trainsOf(got)
		for train := range trainsOf(want) {
			h.trains++
			if there[train] < 2 { // pruning leaves at least two constraints of each train
				h.lost++
			}
		}
		h.queries += perPair
		h.outside += f.countOutside(key, got, perPair)
	}
	f.t.Logf("%+v", h)
	return h
}

// countOutside computes bounds at points all along a relation, and counts the bounds that miss the
// truth.
func (f *fleet) countOutside(key pairKey, p *tscratio.Pair, queries int) (outside int) {
	f.t.Helper()
	relation, err := p.Relate(tscratio.SideA, p.Declared.Wander)
	if err != nil {
		f.t.Fatalf("%v: %v", key, err)
	}
	a, b := f.clients[key.a], f.clients[key.b]
	within := relation.Limits()
	for range queries {
		y := within.Lo + f.r.Uint64N(within.Width())
		at, err := relation.Translate(y)
		if err != nil {
			f.t.Fatalf("%v: %v", key, err)
		}
		// The reading y may be lower than B's first reading, so the differences are signed.
		truth := a.offset + uint64(int64(float64(int64(y-b.offset))/b.rate*a.rate))
		const slop = 8 // rounding in float64, in cycles
		if truth+slop < at.Lo || truth > at.Hi+slop {
			outside++
			f.t.Logf("%v: reading %d is %v, and %d in truth", key, y, at, truth)
		}
	}
	return outside
}

// Clients and the server are restarted at random during an open run. The finished run contains
// every train that the server acknowledged.
func TestARunKeepsItsConstraintsOverRestarts(t *testing.T) {
	seed.NotUnderRace(t, "nothing runs side by side")
	simulatedRestarts(t, 1000).want(t)
}

// simulatedRestarts makes a run in memory and restarts clients and server at random. Then it
// computes a number of bounds of each pair of the run.
func simulatedRestarts(t *testing.T, perPair int) heldRun {
	t.Helper()
	config := testConfig()
	config.Budget = 300
	f := newFleet(t, config, names(4)...)
	f.wantSweep(time.Minute)
	all := ackedTrains{}
	f.acknowledged = func(c *fakeClient, m *control.Trains) { all.add(t, c, m) }
	f.ask(AskStartRun, RunRequest{Name: "tuesday"})
	if !f.run(time.Minute, func() bool { return f.phase() == PhaseOpen }) {
		t.Fatalf("run is %s", f.phase())
	}
	for range 12 {
		f.run(3*time.Second+time.Duration(f.r.Int64N(int64(4*time.Second))), nil)
		switch f.r.IntN(3) {
		case 0:
			f.restart()
		case 1:
			f.core.flush()
			f.restart()
		case 2:
			f.clients[names(4)[f.r.IntN(4)]].startAgain()
		}
	}
	f.clients["n01"].startAgain() // each kind of restart happens at least once
	f.restart()
	f.run(20*time.Second, nil)
	f.ask(AskStopRun, nil)
	if !f.run(time.Minute, func() bool { return f.core.run == nil }) {
		t.Fatalf("run is %s", f.phase())
	}
	dir, err := runs.Open(answered[RunStatus](t, f.ask(AskRun, nil)).Path)
	if err != nil {
		t.Fatal(err)
	}
	defer dir.Close()
	f.wantTrue()
	return f.compareWithRun(dir, all, perPair)
}

// Each new process of a node measures the node's quantum and core slack again. Within an epoch the
// counter stays the same, so the largest values that any process reported hold for all trains of
// the epoch, in the server and in a run.
func TestACounterIsAsWideAsAnyProcessSaid(t *testing.T) {
	config := testConfig()
	config.Budget = 300
	f := newFleet(t, config, names(3)...)
	f.wantSweep(time.Minute)
	f.ask(AskStartRun, RunRequest{Name: "r"})
	if !f.run(time.Minute, func() bool { return f.phase() == PhaseOpen }) {
		t.Fatal(f.phase())
	}
	f.run(3*time.Second, nil)
	before := f.core.runStatus().Trains
	c := f.clients["n01"]
	for _, slack := range []uint64{400, 20} {
		c.startAgain()
		r := &c.register
		r.Nominal_hz, r.CoreSlack_cycles, r.Quantum_cycles = 2.6e9+7, slack, 1
		c.connect()
		f.run(5*time.Second, nil)
	}
	for key, p := range f.core.pairs {
		for _, of := range append(f.runPairs(), p.liveTrains) {
			for _, n := range []tscratio.Node{of.A, of.B} {
				if n.Name == "n01" && n.CoreSlack_cycles != 400 {
					t.Errorf("%v: %+v", key, n)
				}
			}
		}
	}
	f.restart()
	f.run(20*time.Second, nil)
	f.ask(AskStopRun, nil)
	if !f.run(time.Minute, func() bool { return f.core.run == nil }) {
		t.Fatal(f.phase())
	}
	dir, err := runs.Open(answered[RunStatus](t, f.ask(AskRun, nil)).Path)
	if err != nil {
		t.Fatal(err)
	}
	defer dir.Close()
	if n, _ := dir.Run.Node("n01"); n.CoreSlack_cycles != 400 || n.Quantum_cycles < 1 {
		t.Errorf("node is %+v in run.yaml", n)
	}
	pairs, _ := dir.Relations()
	trains := 0
	var relations []*tscratio.Relation
	for _, p := range pairs {
		trains += p.Trains()
		for _, n := range []tscratio.Node{p.A, p.B} {
			want := map[bool]uint64{true: 400, false: 50}[n.Name == "n01"]
			if n.CoreSlack_cycles != want || n.Nominal_hz != 2.6e9 {
				t.Errorf("%s with %s has %+v", p.A.Name, p.B.Name, n)
			}
		}
		r, err := p.Relate(tscratio.SideA, p.Declared.Wander)
		if err != nil {
			t.Fatal(err)
		}
		relations = append(relations, r)
	}
	if trains <= before {
		t.Errorf("%d trains in the end, %d before the restarts", trains, before)
	}
	if _, err := tscratio.NewClosure(relations, tscratio.ThirdAgreed); err != nil {
		t.Error(err)
	}
	if m := f.wantTrue(); !m.Healthy() {
		t.Errorf("unhealthy: %q", m.Unhealthy)
	}
}

// A server may die when it has written only some of its files. If these files say that a report was
// processed, the report's trains are on disk.
func TestAServerThatDiesWhileItWritesLosesNoReport(t *testing.T) {
	config := testConfig()
	config.Budget = 300
	f := newFleet(t, config, names(2)...)
	f.wantSweep(time.Minute)
	all := ackedTrains{}
	f.acknowledged = func(c *fakeClient, m *control.Trains) { all.add(t, c, m) }
	f.ask(AskStartRun, RunRequest{Name: "r"})
	if !f.run(time.Minute, func() bool { return f.phase() == PhaseOpen }) {
		t.Fatal(f.phase())
	}
	f.run(3*time.Second, nil)
	f.store.journal.Close() // as if the disk were full
	f.run(3*time.Second, nil)
	f.core.flush()
	f.restart()
	f.run(20*time.Second, nil)
	f.ask(AskStopRun, nil)
	if !f.run(time.Minute, func() bool { return f.core.run == nil }) {
		t.Fatal(f.phase())
	}
	dir, err := runs.Open(answered[RunStatus](t, f.ask(AskRun, nil)).Path)
	if err != nil {
		t.Fatal(err)
	}
	defer dir.Close()
	f.compareWithRun(dir, all, 1000).want(t)
}

// A server that dies while it writes may have written a counter's new description to only some of
// the counter's pairs. The restarted server uses one description in all pairs.
func TestWhatIsKnownOfACounterIsTheSameInAllPairs(t *testing.T) {
	f := newFleet(t, testConfig(), names(4)...)
	f.wantSweep(time.Minute)
	f.core.flush()
	c := f.clients["n01"]
	c.register.CoreSlack_cycles = 400
	c.connect()
	f.run(time.Millisecond, nil)
	for _, key := range f.core.sortedPairs(nil)[1:] {
		f.core.pairs[key].mustSave = false
	}
	f.core.nodes["n01"].mustSave = false
	f.core.flush()
	f.restart()
	c.register.CoreSlack_cycles = 50
	f.run(20*time.Second, nil)
	if m := f.wantTrue(); !m.Healthy() || m.Nodes[1].CoreSlack_cycles != 400 {
		t.Errorf("unhealthy: %q, node %+v", m.Unhealthy, m.Nodes[1])
	}
}
