package overlay

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cloudprofiler/cloudprofiler/internal/seed"
)

func (f *fleet) setHeats(m *member, heats ...Heat) {
	if err := m.node.SetHeats(f.now, heats...); err != nil {
		f.t.Fatal(err)
	}
	f.watch(m)
}

// findHottest makes a node look for hot nodes (Climb), runs the fleet until the answer comes, and
// returns the nodes that were found.
func (f *fleet) findHottest(m *member, by string) (found []Hot) {
	f.t.Helper()
	answered := false
	err := m.node.Climb(f.now, by, func(all []Hot) { found, answered = all, true })
	if err != nil {
		f.t.Fatal(err)
	}
	f.watch(m)
	for i := 0; i < 30 && !answered; i++ {
		f.run(time.Second)
	}
	if !answered {
		f.t.Fatalf("%s: no answer", m.name)
	}
	return found
}

// Even if all nodes are warm and links lose messages, walks from any node find the hottest ones.
// When the hottest nodes have cooled down, walks no longer name them.
func TestClimb(t *testing.T) {
	seed.NotUnderRace(t, "the fleet is one goroutine")
	f := newFleet(t, rand.New(rand.NewPCG(1, 0)), 7)
	f.growTo(500)
	f.whole(healLimit)
	f.loss = 0.01
	for _, m := range f.nodes {
		f.setHeats(m, Heat{"bound", 20 + f.random.Uint64N(20)}, Heat{"full", f.random.Uint64N(3)})
	}
	f.run(2 * HeatPeriod)
	hot := []*member{f.nodes[3], f.nodes[77], f.nodes[200]}
	for i, m := range hot {
		f.setHeats(m, Heat{"bound", 80 + 10*uint64(i)})
	}
	f.run(20 * HeatPause)
	const questions = 60
	top, all := 0, 0
	for range questions {
		found := f.findHottest(chooseRandom(f.random, f.nodes), "bound")
		if len(found) > 0 && found[0] == (Hot{hot[2].name, 100}) {
			top++
		}
		for _, h := range hot {
			if slices.ContainsFunc(found, func(o Hot) bool { return o.Name == h.name }) {
				all++
			}
		}
	}
	t.Logf("of %d questions, %d find the hottest node; of the three hottest, each finds %.1f",
		questions, top, float64(all)/questions)
	if top < questions*19/20 || all < questions*3*3/4 {
		t.Errorf("%d of %d questions find the hottest node; the three hottest are found %d times",
			top, questions, all)
	}
	for _, m := range hot {
		f.setHeats(m, Heat{"bound", 30})
	}
	f.run(HeatLife)
	for range 10 {
		for _, h := range f.findHottest(chooseRandom(f.random, f.nodes), "bound") {
			if h.Value > 40 {
				t.Errorf("%s is still hot: %d", h.Name, h.Value)
			}
		}
	}
	if found := f.findHottest(f.nodes[0], "nothing"); len(found) > 0 {
		t.Errorf("nothing is found: %v", found)
	}
}

// If one node has a heat of 1 and all others have none, every node finds it. When that heat has
// become 0, all nodes forget it, although the nodes on a cycle of edges tell each other their path
// heats.
func TestSmallHeat(t *testing.T) {
	seed.NotUnderRace(t, "the fleet is one goroutine")
	f := newFleet(t, rand.New(rand.NewPCG(1, 0)), 7)
	f.growTo(300)
	f.whole(healLimit)
	f.setHeats(f.nodes[3], Heat{"dropped", 1})
	f.run(20 * HeatPause)
	for range 20 {
		found := f.findHottest(chooseRandom(f.random, f.nodes), "dropped")
		if len(found) != 1 || found[0] != (Hot{"n000003", 1}) {
			t.Fatalf("found %v", found)
		}
	}
	f.setHeats(f.nodes[3], Heat{"dropped", 0})
	f.run(HeatLife)
	for _, m := range f.nodes {
		if v := heatOf("dropped", m.node.pathHeats()); v > 0 {
			t.Fatalf("node %s still has a path heat of %d", m.name, v)
		}
	}
}

// To tell others how hot it is, a node sends each neighbour one message in a HeatPeriod, whatever
// the size of the fleet. If the heat of a neighbour changes all the time, the node sends a message
// in each HeatPause instead.
func TestHeatIsCheap(t *testing.T) {
	seed.NotUnderRace(t, "the fleet is one goroutine")
	f := grownFleet(t, rand.New(rand.NewPCG(1, 0)), 100)
	f.loss = 0
	warm := 0
	by := map[Name]int{}
	f.traitor = func(_ *member, from Name, m Message) bool {
		if _, ok := m.(Warm); ok {
			warm++
			by[from]++
		}
		return false
	}
	f.run(2 * HeatPeriod)
	if warm > 0 {
		t.Errorf("%d messages about heat if nobody is hot", warm)
	}
	for _, m := range f.nodes {
		f.setHeats(m, Heat{"bound", 100 + f.random.Uint64N(10)})
	}
	f.run(HeatPeriod)
	warm = 0
	f.run(40 * HeatPeriod)
	if rate := float64(warm) / 40 / 100; rate < 7 || rate > 7*8/7+1 {
		t.Errorf("each node sends %v messages in a period, want 7 to 9", rate)
	}
	liar := f.nodes[5]
	clear(by)
	const seconds = 60
	for i := range seconds * 10 {
		_, ins := liar.node.Neighbours()
		for _, to := range ins {
			liar.Send(to, Warm{[]Heat{{"bound", uint64(1000 + 100_000*(i%2))}}})
		}
		f.run(time.Second / 10)
	}
	delete(by, liar.name)
	most := 0
	for _, n := range by {
		most = max(most, n)
	}
	if limit := 7 * (seconds + 1); most > limit || most < limit/4 {
		t.Errorf("a node sends %d messages about heat in %d s, want at most %d", most, seconds,
			limit)
	}
}

// What neighbours and strangers send about heat is bounded, and neighbours are blamed for nonsense.
func TestHeatOfHostileNodes(t *testing.T) {
	net := &lastMessage{}
	n, err := New(Config{Name: "me", Degree: 7, Random: rand.New(rand.NewPCG(1, 0)),
		Transport: net})
	if err != nil {
		t.Fatal(err)
	}
	n.outs = append(n.outs, &outEdge{peer: "friend", due: neverTime})
	for i := range 20 {
		n.Receive(0, "friend", Warm{[]Heat{{fmt.Sprint("kind", i), 1 << 63}}})
		n.Receive(0, "stranger", Warm{[]Heat{{"strange", 9}}})
	}
	if got := n.pathHeats(); len(got) != 1 || got[0] != (Heat{"kind19", 3 << 61}) {
		t.Errorf("path heats %v", got)
	}
	long := strings.Repeat("x", MaxFact+1)
	for _, heats := range [][]Heat{make([]Heat, MaxHeats+1), {{"", 1}}, {{long, 1}}} {
		before := len(n.Blamed())
		n.blamed = nil
		n.Receive(0, "friend", Warm{heats})
		if b := n.Blamed(); len(b) != 1 || b[0].Offence != BadMessage {
			t.Errorf("%v: blamed %v, %d before", heats, b, before)
		}
		if err := n.SetHeats(0, heats...); err == nil {
			t.Errorf("sets heats %v", heats)
		}
	}
	for _, by := range []string{"", long} {
		if err := n.Climb(0, by, nil); err == nil {
			t.Errorf("climbs by %q", by)
		}
		if what := offenceOf(Climb{Origin: "x", By: by}); what != BadMessage {
			t.Errorf("a climb by %q breaks the rule %q", by, what)
		}
	}
	// A second Felt for the same walk changes nothing, and neither does a Felt for a walk that this
	// node did not send.
	var found []Hot
	if err := n.Climb(0, "kind", func(all []Hot) { found = all }); err != nil {
		t.Fatal(err)
	}
	for i := range 3 {
		n.Receive(0, "liar", Felt{ID: uint64(i), Climb: 12345, Value: 7})
		for id := range n.climbing[0].open {
			n.Receive(0, "hot", Felt{ID: uint64(10 + i), Climb: id, Value: 8})
			break
		}
	}
	n.Tick(WalkLife + 1)
	if len(found) != 1 || found[0] != (Hot{"hot", 8}) {
		t.Errorf("found %v", found)
	}
	// The answer comes when all walks have ended.
	found = nil
	if err := n.Climb(n.now, "kind", func(all []Hot) { found = all }); err != nil {
		t.Fatal(err)
	}
	for range 2 * HeatWalks {
		if len(n.climbing) == 0 {
			break
		}
		for id := range n.climbing[0].open {
			n.Receive(n.now, "hot", Felt{ID: id, Climb: id, Value: 8})
			break
		}
	}
	if len(found) != 1 {
		t.Errorf("found %v when all walks have ended", found)
	}
	for range MaxSearches {
		if err := n.Climb(n.now, "kind", func([]Hot) {}); err != nil {
			t.Fatal(err)
		}
	}
	if err := n.Climb(n.now, "kind", nil); err == nil {
		t.Error("climbs without end")
	}
}
