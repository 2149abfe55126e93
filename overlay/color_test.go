package overlay

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/cloudprofiler/cloudprofiler/internal/seed"
)

// searchFrom searches from a node, and runs the fleet until there is a result.
func (f *fleet) searchFrom(m *member, pattern string) Result {
	f.t.Helper()
	var result *Result
	if err := m.node.Search(f.now, pattern, func(r Result) { result = &r }); err != nil {
		f.t.Fatal(err)
	}
	f.watch(m)
	for range 1200 {
		if result != nil {
			return *result
		}
		f.run(100 * time.Millisecond)
	}
	f.t.Fatalf("search for %q from %s has no result", pattern, m.name)
	return Result{}
}

func (f *fleet) setFacts(m *member, facts ...Fact) {
	if err := m.node.SetFacts(facts...); err != nil {
		f.t.Fatal(err)
	}
	f.watch(m)
}

// The mean length of a search is 1/Pr with Pr = 1 - (1-share)^B, as in the thesis that the package
// comment names. Here share is the share of nodes with the fact, and B = 57 is the number of nodes
// that hold each hint. The thesis does not consider that neighbours hold some of the same hints:
// each step after the first brings only B(1-1/d) new hints, where d is the degree.
func TestSearchLengths(t *testing.T) {
	seed.NotUnderRace(t, "the fleet is one goroutine")
	f := newFleet(t, rand.New(rand.NewPCG(1, 0)), 7)
	f.growTo(1000)
	f.whole(healLimit)
	for i, m := range f.nodes {
		f.setFacts(m, Fact(fmt.Sprint("pair=", i%500)), Fact(fmt.Sprint("ten=", i%100)))
	}
	f.run(2 * AdvertisePeriod)
	const searches = 3000
	for fact, share := range map[string]float64{"pair=%d": 0.002, "ten=%d": 0.01} {
		groups, sum, open := int(math.Round(1/share/2))*2, 0, 0
		for i := range searches {
			m := chooseRandom(f.random, f.nodes)
			err := m.node.Search(f.now, fmt.Sprintf(fact, i%groups), func(r Result) {
				open--
				sum += r.Visited
				if r.Name == "" {
					t.Errorf("nothing found: %+v", r)
				}
			})
			if err != nil {
				t.Fatal(err)
			}
			open++
			f.watch(m)
			f.run(20 * time.Millisecond)
		}
		f.run(20 * time.Second)
		const b = 1 + 7 + 49
		first, later := 1-math.Pow(1-share, b), 1-math.Pow(1-share, b*6./7)
		model := 1 + (1-first)/later
		got := float64(sum) / searches
		t.Logf("share %v: %.3f nodes, model %.3f", share, got, model)
		if open != 0 || math.Abs(got/model-1) > 0.1 {
			t.Errorf("share %v: mean length %v, model %v; %d open", share, got, model, open)
		}
	}
}

func TestSearchOverLossyLinks(t *testing.T) {
	seed.For(t, 3, func(t *testing.T, r *rand.Rand) {
		f := grownFleet(t, r, 200)
		for _, m := range f.nodes {
			f.setFacts(m, "role=worker")
		}
		gold := f.nodes[r.IntN(200)]
		f.setFacts(gold, "role=gold", "kernel=6.1")
		f.run(2 * AdvertisePeriod)
		for range 20 {
			got := f.searchFrom(chooseRandom(r, f.nodes), "role=g*")
			if got.Name != gold.name || got.Fact != "role=gold" {
				t.Errorf("found %+v, want %s", got, gold.name)
			}
		}
		if got := f.searchFrom(f.nodes[0], "role=queen"); got.Name != "" ||
			got.Missed > SureMissed ||
			got.Visited > MaxScan {
			t.Errorf("what nobody has: %+v", got)
		}
		// A fact that is withdrawn is not found although hints remain.
		f.setFacts(gold, "role=worker")
		if got := f.searchFrom(f.nodes[0], "role=gold"); got.Name != "" {
			t.Errorf("what nobody has any more: %+v", got)
		}
		f.run(HintLife + AdvertisePeriod)
		for _, m := range f.nodes {
			for _, h := range m.node.hints {
				if m.node.matches("role=gold", h.facts) {
					t.Fatalf("%s still has %+v", m.name, h)
				}
			}
		}
	})
}

// If a search among few nodes finds nothing, it ends before it has sent as many walks as the nodes
// accept.
func TestSearchAmongFewNodes(t *testing.T) {
	seed.For(t, 5, func(t *testing.T, r *rand.Rand) {
		f := newFleet(t, r, 7)
		f.maxDelay = 1
		f.growTo(4)
		f.run(10 * time.Second)
		for _, m := range f.nodes {
			f.setFacts(m, "role=worker")
		}
		f.run(2 * AdvertisePeriod)
		got := f.searchFrom(f.nodes[0], "role=gold")
		if got.Name != "" || got.Missed > SureMissed || got.Visited > WalksBurst {
			t.Errorf("%+v, want none, and at most %d visits", got, WalksBurst)
		}
	})
}

// On average, missedChance returns a probability that is not below the true one, and is at most 1.6
// times as large.
func TestMissed(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 0))
	const known, draws = 8, 20_000
	for _, mean := range []float64{0.5, 1, 2, 4} {
		sum := 0.0
		for range draws {
			meetings := 0 // drawn from a Poisson distribution with the mean mean*known
			for p := r.Float64(); p > math.Exp(-mean*known); p *= r.Float64() {
				meetings++
			}
			sum += missedChance(known, meetings)
		}
		got, truth := sum/draws, math.Exp(-mean)
		if got < truth*0.99 || got > truth*1.6 {
			t.Errorf("mean %v: missed with probability %v, truth %v", mean, got, truth)
		}
	}
	if missedChance(8, 0) != 1 || missedChance(0, 5) != 1 {
		t.Error("without meetings nothing is certain")
	}
}

// A neighbour makes up a million facts and owners. Its hints displace no hint that others sent. In
// each half of an AdvertisePeriod, the node passes on at most MaxHintsVia of the neighbour's hints.
func TestMillionColors(t *testing.T) {
	net := &lastMessage{}
	n, err := New(Config{Name: "me", Degree: 7, Random: rand.New(rand.NewPCG(1, 0)),
		Transport: net})
	if err != nil {
		t.Fatal(err)
	}
	n.Receive(0, "honest", Ping{Seq: 1})
	n.Receive(0, "liar", Ping{Seq: 1})
	n.Receive(0, "honest", Hint{Owner: "honest", Facts: []Fact{"role=gold"}, Levels: 2})
	n.outs = []*outEdge{{peer: "next", due: neverTime}}
	before := net.count
	for i := range 1_000_000 / seed.Share() {
		n.Receive(0, "liar", Hint{Owner: Name(fmt.Sprint("owner", i)),
			Facts: []Fact{Fact(fmt.Sprint("color=", i))}, Levels: 1})
		n.Receive(0, "liar", Hint{Owner: "liar", Facts: []Fact{"color=red"}, Levels: 2})
		n.Receive(0, "stranger", Hint{Owner: "stranger", Facts: []Fact{"color=red"}, Levels: 2})
	}
	n.invariants(t)
	if !n.holdsHint("honest") || n.holdsHint("stranger") || len(n.hints) > 1+MaxHintsVia {
		t.Errorf("%d hints, honest's %v, a stranger's %v", len(n.hints), n.holdsHint("honest"),
			n.holdsHint("stranger"))
	}
	if sent := net.count - before; sent > MaxHintsVia {
		t.Errorf("passed on %d hints, want at most %d", sent, MaxHintsVia)
	}
	n.Receive(0, "rude", Ping{Seq: 1})
	n.Receive(0, "rude", Hint{Owner: "other", Levels: HintLevels})
	n.Receive(0, "rude", Hint{Owner: "rude", Levels: HintLevels + 1})
	want := []Blame{{"liar", ManyFacts, ShunAfter, 0}, {"rude", BadMessage, 2, 0}}
	if blamed := n.Blamed(); !slices.Equal(blamed, want) || n.in("liar") != nil {
		t.Errorf("blamed: %+v, want %+v and no edge with the first", blamed, want)
	}
}

// Nodes without facts send no hints, so a search among them cannot say that no node has the fact:
// Missed is 1.
func TestNoFacts(t *testing.T) {
	f := grownFleet(t, rand.New(rand.NewPCG(1, 0)), 30)
	f.run(HintLife)
	for _, m := range f.nodes {
		if len(m.node.hints) > 0 {
			t.Fatalf("%s has hints %+v", m.name, m.node.hints)
		}
	}
	if got := f.searchFrom(f.nodes[0], "role=*"); got.Name != "" || got.Missed != 1 {
		t.Errorf("found %+v", got)
	}
}

// A node searches for a fact that it does not have. It never finds itself, whatever a liar says.
func TestFoundByALiar(t *testing.T) {
	n, err := New(Config{Name: "me", Degree: 7, Random: rand.New(rand.NewPCG(1, 0)),
		Transport: &lastMessage{}, Match: matchPattern})
	if err != nil {
		t.Fatal(err)
	}
	n.outs = append(n.outs, &outEdge{peer: "other", due: neverTime})
	for name, facts := range map[string][]Fact{"worker": {"role=worker"}, "gold": {"role=gold"}} {
		var got []Result
		if err := n.SetFacts(facts...); err != nil {
			t.Fatal(err)
		}
		if err := n.Search(0, "role=g*", func(r Result) { got = append(got, r) }); err != nil {
			t.Fatal(err)
		}
		for id := uint64(1); len(n.searches) > 0; id++ {
			n.Receive(0, "liar", Found{ID: id, Search: n.searches[0].ID, Name: "me"})
		}
		want := Result{}
		if name == "gold" {
			want = Result{Name: "me", Fact: "role=gold"}
		}
		if len(got) != 1 || got[0].Name != want.Name || got[0].Fact != want.Fact {
			t.Errorf("a %s: %+v, want %+v", name, got, want)
		}
	}
}

// A Confirm proves nothing if its fact does not match the pattern, or if it has no fact.
func TestConfirm(t *testing.T) {
	net := &lastMessage{}
	n, err := New(Config{Name: "me", Degree: 7, Random: rand.New(rand.NewPCG(1, 0)),
		Transport: net, Match: matchPattern})
	if err != nil {
		t.Fatal(err)
	}
	var got []Fact
	ask := func() uint64 {
		n.askToVerify("other", "role=g*", 1, gatheredFact{&got})
		return n.asked[len(n.asked)-1].id
	}
	id := ask()
	n.Receive(0, "other", Confirm{ID: id, Fact: "role=worker"})
	n.Receive(0, "another", Confirm{ID: id, Fact: "role=gold"})
	if len(got) != 0 {
		t.Fatalf("confirmed %q", got)
	}
	n.Receive(0, "other", Confirm{ID: id, Fact: "role=gold"})
	n.Receive(0, "other", Confirm{ID: id, Fact: "role=gold"})
	n.Receive(0, "other", Ack{ID: ask(), OK: true})
	n.ask("other", 7, Revoke{ID: 7, Out: "x"}, 1, gatheredFact{&got})
	n.Receive(0, "other", Confirm{ID: 7, Fact: "role=gold"})
	if len(got) != 2 || got[0] != "role=gold" || got[1] != "" {
		t.Errorf("confirmed %q", got)
	}
}

// gatheredFact is a step that records the fact with which it was called, or "" if there was none.
type gatheredFact struct{ got *[]Fact }

func (g gatheredFact) proceed(*Node, bool)     { *g.got = append(*g.got, "") }
func (g gatheredFact) confirm(_ *Node, f Fact) { *g.got = append(*g.got, f) }
