package fleet

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/cloudprofiler/cloudprofiler/internal/seed"
	"github.com/cloudprofiler/cloudprofiler/overlay"
)

// runTruthful simulates a fleet. All bounds must contain the truth.
func runTruthful(t *testing.T, o Options) Result {
	t.Helper()
	r, err := Run(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%+v", r)
	if r.Outside > 0 || r.Queries < uint64(o.Pairs*o.Queries/2) {
		t.Errorf("%d of %d bounds are false", r.Outside, r.Queries)
	}
	return r
}

// All bounds of a simulated fleet contain the truth, while nodes die and join. The cost for each
// node and the widths of the bounds stay within their limits.
func TestFleetHoldsTruth(t *testing.T) {
	o := Options{Nodes: 120, Degree: 7, Talks: 1, Measure: 20 * time.Second, Churn: 0.05,
		Loss: 0.02, Pairs: 300, Queries: 20, Seed: seed.Of(t)}
	if seed.Share() > 1 {
		o.Nodes, o.Pairs = 30, 50
	}
	r := runTruthful(t, o)
	if r.RandomBound > 3*r.EdgeBound || float64(r.TalkBound) > 1.1*float64(r.EdgeBound) {
		t.Errorf("bounds: of a random pair %v, of neighbours %v, where tuples travel %v",
			r.RandomBound, r.EdgeBound, r.TalkBound)
	}
}

// Although some nodes lie, the bounds of the other nodes contain the truth. They also do so while
// two halves of the fleet cannot reach each other.
func TestHostileFleetHoldsTruth(t *testing.T) {
	seed.NotUnderRace(t, "TestFleetHoldsTruth runs the same code side by side")
	o := Options{Nodes: 80, Degree: 7, Talks: 1, Measure: 20 * time.Second, Churn: 0.05,
		Liars: 0.05, Cut: 6 * time.Second, Loss: 0.02, Pairs: 500, Queries: 20, Seed: 1}
	runTruthful(t, o)
}

// If half of a fleet dies at once, the other nodes soon have all their neighbours again, and all
// bounds contain the truth.
func TestFleetOfWhichHalfDies(t *testing.T) {
	seed.NotUnderRace(t, "TestFleetHoldsTruth runs the same code side by side")
	o := Options{Nodes: 80, Degree: 7, Talks: 1, Measure: 20 * time.Second, Killed: 0.5,
		Loss: 0.02, Pairs: 300, Queries: 20, Seed: seed.Of(t)}
	r := runTruthful(t, o)
	const noticed = 5 * time.Second // no node knows earlier that a neighbour is dead
	if r.Irregular > 0 || r.Healed < noticed || r.Healed > time.Minute {
		t.Errorf("%d nodes lack neighbours after %v", r.Irregular, r.Healed)
	}
}

// If two halves of a fleet cannot reach each other for some time, they soon make one graph again.
func TestHalvesOfAFleetJoinAgain(t *testing.T) {
	seed.NotUnderRace(t, "TestFleetHoldsTruth runs the same code side by side")
	o := Options{Nodes: 30, Degree: 5, Talks: 1, Measure: 100 * time.Second,
		Cut: 20 * time.Second, Loss: 0.01, Pairs: 50, Queries: 20, Seed: seed.Of(t)}
	r := runTruthful(t, o)
	if r.Joined <= 0 || r.Joined > time.Minute {
		t.Errorf("the halves are one graph after %v", r.Joined)
	}
}

// Two halves of a fleet cannot reach each other for ten minutes, while nodes die and join. After
// that, they soon make one graph again. If three percent of the nodes are replaced each minute,
// many nodes are so new that they never lost a neighbour of the other half. Then it takes longer
// until a quarter of all edges crosses the former cut, but no longer until the graph is regular and
// whole.
func TestHalvesJoinAgainAlthoughNodesDied(t *testing.T) {
	seed.NotUnderRace(t, "the fleet is one goroutine")
	const onePercent, threePercent = 100, 33 // seconds from one death to the next
	for _, period := range []int{onePercent, threePercent} {
		seed.For(t, 8, func(t *testing.T, r *rand.Rand) {
			w := &world{r: r, o: Options{Nodes: 60, Degree: 7, Loss: 0.01},
				byName: map[overlay.Name]*node{}}
			if err := w.grow(); err != nil {
				t.Fatal(err)
			}
			second := 0
			runSecond := func() {
				w.run(time.Second)
				w.helpLonely()
				if second++; second%period == period/2 {
					if err := w.replaceOne(); err != nil {
						t.Fatal(err)
					}
				}
			}
			const cut, limit = 10 * time.Minute, time.Minute
			w.cut = true
			for range cut / time.Second {
				runSecond()
			}
			if w.whole() {
				t.Error("edges lead from one half to the other during the cut")
			}
			w.cut = false
			healed := w.isJoined
			if period == threePercent {
				healed = func() bool { return w.irregular() == 0 && w.whole() }
			}
			for ended := w.now; !healed(); runSecond() {
				if w.now-ended >= limit {
					t.Fatalf("after %v, %d nodes lack neighbours; one graph: %v", limit,
						w.irregular(), w.whole())
				}
			}
		})
	}
}
