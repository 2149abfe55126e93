package coordinator

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/cloudprofiler/cloudprofiler/asm"
	"github.com/cloudprofiler/cloudprofiler/internal/privileged"
	"github.com/cloudprofiler/cloudprofiler/internal/proof"
	"github.com/cloudprofiler/cloudprofiler/internal/seed"
	"github.com/cloudprofiler/cloudprofiler/tscratio"
)

// TestBarRestarts restarts clients and the server, in many simulated runs and in one run of real
// processes in namespaces. It records the result.
func TestBarRestarts(t *testing.T) {
	simulated, live, restarts := 30_000, 10_000, 4
	if proof.Begin(t) == proof.Full {
		simulated, live, restarts = 10_000_000, 1_000_000, 40
	}
	var inMemory heldRun
	for inMemory.queries < simulated {
		inMemory.add(simulatedRestarts(t, max(simulated/20, 20_000)/6))
	}
	bars := []proof.Bar{
		{Name: "simulated queries with restarts that miss the truth", Unit: "bounds",
			Figure: float64(inMemory.outside)},
		{Name: "simulated trains that restarts lose", Unit: "trains",
			Figure: float64(inMemory.lost)},
		{Name: "live queries with restarts that miss the truth", Unit: "bounds"},
		{Name: "live trains that restarts lose", Unit: "trains"},
	}
	if err := privileged.Check(); err != nil {
		bars[2].Absent, bars[3].Absent = err.Error(), err.Error()
	} else {
		held := liveRestarts(t, restarts, live)
		bars[2].Figure, bars[3].Figure = float64(held.outside), float64(held.lost)
	}
	proof.Check(t, bars...)
}

// liveRestarts opens a run of four virtual nodes in namespaces. During the run it kills clients and
// the server, and cuts nodes off. After the run it computes a number of bounds from the run's
// files.
func liveRestarts(t *testing.T, restarts, queries int) (h heldRun) {
	r := seed.Random(t)
	const nodes = 4
	f := newRealFleet(t, r, nodes)
	f.waitRegistered()
	var status RunStatus
	f.question(AskStartRun, RunRequest{Name: "restarts"}, &status)
	f.waitUntil("the run is open", func() bool {
		f.question(AskRun, nil, &status)
		return status.Phase == PhaseOpen
	})
	begun := asm.Counter()
	for n := range restarts {
		f.moreTrains(&status)
		before := status.Trains
		what := []string{"server", "kill", "stop", "cut"}[n%4]
		i := r.IntN(nodes)
		switch what {
		case "server":
			kill(f.server)
			f.startServer()
		default:
			f.harmClient(i, what)
			f.waitUntil("the node is missed", func() bool {
				return !slices.Contains(f.registered(), f.clients[i].job.Node.Name)
			})
			f.healClient(i)
		}
		f.waitRegistered()
		// Clients send again the reports that the killed server did not acknowledge.
		f.waitUntil("the run has the trains that it had", func() bool {
			f.question(AskRun, nil, &status)
			return status.Trains >= before
		})
		t.Logf("restart %d: %s; %d trains before, %d after", n, what, before, status.Trains)
	}
	f.moreTrains(&status)
	ended := asm.Counter()
	had := status.Trains
	dir := f.finishRun(&status)
	pairs, missing := dir.Relations()
	if len(pairs) != nodes*(nodes-1)/2 || len(missing) > 0 {
		t.Fatalf("%d relations, missing %v", len(pairs), missing)
	}
	for _, p := range pairs {
		h.trains += p.Trains()
		h.queries += queries/len(pairs) + 1
		h.outside += f.outsideLive(r, p, begun, ended, queries/len(pairs)+1)
	}
	h.lost = max(0, had-h.trains)
	t.Logf("%+v", h)
	return h
}

// moreTrains waits until the run has some more trains.
func (f *realFleet) moreTrains(status *RunStatus) {
	f.t.Helper()
	f.question(AskRun, nil, status)
	want := status.Trains + 12
	f.waitUntil("the run has more trains", func() bool {
		f.question(AskRun, nil, status)
		return status.Trains >= want
	})
}

// outsideLive computes bounds at random instants of a run, and counts the bounds that miss the
// truth.
func (f *realFleet) outsideLive(
	r *rand.Rand, p *tscratio.Pair, begun, ended uint64, queries int,
) (outside int) {
	f.t.Helper()
	relation, err := p.Relate(tscratio.SideA, p.Declared.Wander)
	if err != nil {
		f.t.Fatal(err)
	}
	a, b := f.truths()[p.A.Name], f.truths()[p.B.Name]
	for range queries {
		instant := begun + r.Uint64N(ended-begun)
		reading, truth := b.Reading(instant), a.Reading(instant)
		bound, err := relation.Translate(reading)
		if err != nil {
			f.t.Fatalf("%s with %s at %d: %v", p.A.Name, p.B.Name, reading, err)
		}
		if truth < bound.Lo || truth > bound.Hi {
			outside++
		}
	}
	return outside
}
