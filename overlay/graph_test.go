package overlay

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/cloudprofiler/cloudprofiler/internal/proof"
	"github.com/cloudprofiler/cloudprofiler/internal/seed"
)

// healLimit is the time after which a damaged graph must be regular again.
const healLimit = 60 * time.Second

// grownFleet returns a regular fleet of n nodes whose network loses 5 % of all messages.
func grownFleet(t testing.TB, r *rand.Rand, n int) *fleet {
	t.Helper()
	f := newFleet(t, r, 7)
	f.loss = 0.05
	f.growTo(n)
	f.whole(healLimit)
	return f
}

// killSome kills each node with a probability.
func (f *fleet) killSome(share float64) {
	for _, m := range f.alive() {
		if f.random.Float64() < share {
			m.node = nil
		}
	}
}

// crossingShare returns the share of edges from one half of the fleet to the other.
func (f *fleet) crossingShare() float64 {
	crossing := 0
	for _, m := range f.alive() {
		for _, o := range m.node.outs {
			if f.byName[o.peer].half != m.half {
				crossing++
			}
		}
	}
	return float64(crossing) / float64(f.degree*len(f.alive()))
}

func TestGraphIsRegularAtAnySize(t *testing.T) {
	for _, n := range []int{8, 9, 10, 12, 20, 60} {
		seed.For(t, 5, func(t *testing.T, r *rand.Rand) { grownFleet(t, r, n) })
	}
}

// Nodes that start shortly after each other find each other soon. Among few nodes, a walk often
// comes back to its origin. Each step counts against the number of walks that a neighbour accepts,
// so the walk must end before this number is used up.
func TestFewNodesJoinSoon(t *testing.T) {
	for _, n := range []int{3, 4, 6} {
		seed.For(t, 5, func(t *testing.T, r *rand.Rand) {
			f := newFleet(t, r, 2)
			f.maxDelay = 1
			for range n {
				var contacts []Name
				for _, m := range f.nodes {
					contacts = append(contacts, m.name)
				}
				f.add(contacts...)
				f.run(500 * time.Millisecond)
			}
			f.whole(20 * time.Second)
		})
	}
}

// A fleet of fewer than degree + 1 nodes is a complete graph. All its walks are in vain, so they
// must cost little.
func TestFewNodesAreAllNeighbours(t *testing.T) {
	seed.For(t, 5, func(t *testing.T, r *rand.Rand) {
		f := newFleet(t, r, 7)
		f.growTo(5)
		f.run(10 * time.Minute)
		for _, m := range f.nodes {
			if outs, ins := m.node.Neighbours(); len(outs) != 4 || len(ins) != 4 {
				t.Errorf("%s: neighbours %v and %v, want 4 and 4", m.name, outs, ins)
			}
		}
		before := f.sent
		f.run(2 * time.Minute)
		if rate := float64(f.sent-before) / 120 / 5; rate > 8 {
			t.Errorf("%v messages a second for each node, want at most 8", rate)
		}
	})
}

func TestLeave(t *testing.T) {
	seed.For(t, 3, func(t *testing.T, r *rand.Rand) {
		f := grownFleet(t, r, 200)
		f.loss = 0
		for range 50 {
			m := f.alive()[r.IntN(len(f.alive()))]
			m.node.Leave(f.now)
			f.watch(m)
			f.run(400 * time.Millisecond)
			for _, r := range m.node.asked { // only those that left before need not answer
				if f.byName[r.to].node != nil {
					t.Fatalf("%s has not left after 400 ms: %+v", m.name, r)
				}
			}
			if !m.node.Left() {
				f.run(AskTries * AskRetry)
			}
			if !m.node.Left() {
				t.Fatalf("%s has not left: %+v", m.name, m.node.asked[0])
			}
			m.node = nil
		}
		if missing, all := f.missingEdges(), 2*7*150; missing > all/20 {
			t.Errorf("%d of %d ends are missing, as if nodes had died", missing, all)
		}
		f.whole(healLimit)
	})
}

// Each minute, a tenth of the fleet dies, a tenth leaves, and as many nodes join.
func TestChurn(t *testing.T) {
	seed.For(t, 2, func(t *testing.T, r *rand.Rand) {
		f := grownFleet(t, r, 200)
		worst := 0
		for i := range 180 {
			alive := f.alive()
			m := alive[r.IntN(len(alive))]
			if i%2 == 0 {
				m.node.Leave(f.now)
				f.watch(m)
			}
			f.run(300 * time.Millisecond)
			m.node = nil
			f.add(chooseRandom(r, f.alive()).name, chooseRandom(r, f.alive()).name)
			f.run(700 * time.Millisecond)
			worst = max(worst, f.missingEdges())
		}
		t.Logf("at most %d of %d ends were missing", worst, 14*200)
		if worst > 14*200/5 {
			t.Errorf("%d of %d ends were missing at once", worst, 14*200)
		}
		f.wantNobodyAccused()
		f.whole(healLimit)
	})
}

// A heal says how a fleet recovered from damage. The field killed is how many seconds the fleet
// needed to become whole after half of its nodes were killed. The field joined is how many seconds
// it needed to become whole after a cut into two halves had ended. The field crossing is the share
// of edges that lead from one of the former halves to the other. The field messages is the number
// of messages that each node sends in a second while nothing is damaged.
type heal struct{ killed, joined, crossing, messages float64 }

func healOf(t testing.TB, r *rand.Rand, n int, cut time.Duration) (h heal) {
	t.Helper()
	f := grownFleet(t, r, n)
	f.run(healLimit)
	before, start := f.sent, f.now
	f.run(20 * time.Second)
	h.messages = float64(f.sent-before) / (f.now - start).Seconds() / float64(n)

	f.cut = true
	f.run(cut)
	if c := f.crossingShare(); c > 0.01 {
		t.Errorf("%v of all edges cross the cut after %v", c, cut)
	}
	if missing := f.missingEdges(); missing != 0 {
		t.Errorf("%d ends are missing in the halves after %v", missing, cut)
	}
	f.cut = false
	f.run(3 * LostPeriod) // in this time, nodes probe lost nodes and exchange edges
	h.joined = (3*LostPeriod + f.whole(healLimit-3*LostPeriod)).Seconds()
	h.crossing = f.crossingShare()

	f.run(healLimit)
	f.killSome(0.5)
	f.run(2 * PingPeriod)
	h.killed = (2*PingPeriod + f.whole(healLimit-2*PingPeriod)).Seconds()
	f.wantNobodyAccused()
	return h
}

// crossingAfterCut is the least share of edges that must lead from one former half to the other
// once a cut has ended, because edges that were made during the cut are then replaced. In a fleet
// that was never cut, that share is one half.
const crossingAfterCut = 0.25

func TestHeal(t *testing.T) {
	seed.NotUnderRace(t, "the fleet is one goroutine")
	seed.For(t, 1, func(t *testing.T, r *rand.Rand) {
		h := healOf(t, r, 1000, 10*time.Minute)
		t.Logf("%+v", h)
		if h.crossing < crossingAfterCut {
			t.Errorf("%v of all edges cross the former cut", h.crossing)
		}
	})
}

// TestBarHeal is TestHeal with 10,000 nodes.
func TestBarHeal(t *testing.T) {
	n := 1000
	if proof.Begin(t) == proof.Full {
		n = 10_000
	}
	large := healOf(t, seed.Random(t), n, 10*time.Minute)
	small := grownFleet(t, seed.Random(t), 10)
	small.run(healLimit)
	before := small.sent
	small.run(healLimit)
	rate := float64(small.sent-before) / healLimit.Seconds() / 10
	t.Logf("%d nodes: %+v; 10 nodes: %v messages a second", n, large, rate)
	proof.Check(t,
		proof.Bar{Name: "graph regular again after half of all nodes died", Figure: large.killed,
			Limit: healLimit.Seconds(), Unit: "s"},
		proof.Bar{Name: "graph regular again after a cut of 10 minutes", Figure: large.joined,
			Limit: healLimit.Seconds(), Unit: "s"},
		proof.Bar{Name: "edges across the former cut", Figure: large.crossing,
			Limit: crossingAfterCut, AtLeast: true, Unit: "of all"},
		proof.Bar{Name: "messages of a node, against a fleet of 10",
			Figure: large.messages / rate, Limit: 1.1, Unit: "×"})
}

// A few nodes are cut off from all others. They know that they are few, so they seldom look for
// more nodes. Two new nodes start on their side, but these know only each other and nodes on the
// other side. Soon after the cut has ended, the graph is whole again.
func TestFewNodesThatWereCutOffJoinAgain(t *testing.T) {
	for _, cutOff := range []int{0, 3} {
		seed.For(t, 5, func(t *testing.T, r *rand.Rand) {
			f := grownFleet(t, r, 60)
			for i, m := range f.nodes {
				m.half = min(1, i/(60-cutOff))
			}
			f.cut = true
			first := f.add(f.nodes[0].name)
			second := f.add(f.nodes[1].name, first.name)
			first.half, second.half = 1, 1
			f.run(10 * time.Minute)
			f.cut = false
			t.Logf("%d were cut off: %v", cutOff, f.whole(time.Minute))
		})
	}
}

// Equal random streams and equal messages give equal behaviour.
func TestDeterministic(t *testing.T) {
	digest := func() (sent int, edges []Name) {
		f := newFleet(t, rand.New(rand.NewPCG(7, 0)), 7)
		f.loss = 0.05
		f.growTo(60)
		f.killSome(0.3)
		f.run(30 * time.Second)
		for _, m := range f.alive() {
			outs, ins := m.node.Neighbours()
			edges = append(edges, slices.Concat(outs, ins)...)
		}
		return f.sent, edges
	}
	sent, edges := digest()
	again, edgesAgain := digest()
	if sent != again || !slices.Equal(edges, edgesAgain) {
		t.Errorf("%d messages, then %d", sent, again)
	}
}

func TestNewRefuses(t *testing.T) {
	good := Config{Name: "a", Degree: 7, Random: rand.New(rand.NewPCG(1, 0)), Transport: &member{}}
	if _, err := New(good); err != nil {
		t.Fatal(err)
	}
	for name, change := range map[string]func(*Config){
		"no name":      func(c *Config) { c.Name = "" },
		"long name":    func(c *Config) { c.Name = Name(make([]byte, MaxName+1)) },
		"small degree": func(c *Config) { c.Degree = 1 },
		"large degree": func(c *Config) { c.Degree = MaxDegree + 1 },
		"no random":    func(c *Config) { c.Random = nil },
		"no transport": func(c *Config) { c.Transport = nil },
		"bad contact":  func(c *Config) { c.Contacts = []Name{""} },
	} {
		c := good
		change(&c)
		if _, err := New(c); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
}

// A node whose contacts are all dead joins as soon as it is given living ones.
func TestNodeMeetsNewContacts(t *testing.T) {
	f := newFleet(t, seed.Random(t), 3)
	f.growTo(20)
	f.whole(time.Minute)
	m := f.add("dead")
	f.run(10 * time.Minute)
	m.node.few, m.node.pausedUntil = true, f.now+FewPause // the longest pause
	m.node.seekAt, m.node.seeks = m.node.pausedUntil, nil
	if outs, ins := m.node.Neighbours(); len(outs)+len(ins) > 0 {
		t.Fatalf("joined without a contact: %v, %v", outs, ins)
	}
	m.node.Meet(f.now, nil)
	m.node.Meet(f.now, []Name{m.name, "", f.nodes[7].name})
	f.watch(m)
	f.whole(5 * time.Second)
}
