package overlay

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/cloudprofiler/cloudprofiler/internal/proof"
	"github.com/cloudprofiler/cloudprofiler/internal/seed"
)

// startAtOnce starts n nodes within a few seconds. Each gets contacts from a registry, as from the
// server: up to eight of the nodes that asked before it. Links lose messages, and machines stand
// still now and then.
func (f *fleet) startAtOnce(n int) {
	f.loss, f.pauses = 0.05*f.random.Float64(), 0.01*f.random.Float64()
	f.maxPause = 300
	within := []int{1, 100, 1000, 4000}[f.random.IntN(4)] // in ms
	var starts []Time
	for range n {
		starts = append(starts, f.now+Time(f.random.IntN(within))*time.Millisecond)
	}
	slices.Sort(starts)
	for _, at := range starts {
		f.run(at - f.now)
		f.add(f.someContacts("")...)
	}
}

// someContacts returns up to eight nodes, but not the given one.
func (f *fleet) someContacts(but Name) (names []Name) {
	for _, i := range f.random.Perm(len(f.nodes)) {
		if m := f.nodes[i]; m.node != nil && m.name != but && len(names) < 8 {
			names = append(names, m.name)
		}
	}
	return names
}

// oneGraphWithin runs the fleet until no edge is missing and all nodes are connected. Every five
// seconds, nodes without neighbours get other contacts, as from the server.
func (f *fleet) oneGraphWithin(limit time.Duration) (took time.Duration, ok bool) {
	for start := f.now; f.now-start < limit; {
		f.run(500 * time.Millisecond)
		if f.missingEdges() == 0 && f.countReached() == len(f.alive()) {
			return f.now - start, true
		}
		for _, m := range f.alive() {
			if len(m.node.outs) == 0 && (f.now-start)%(5*time.Second) == 0 {
				m.node.Meet(f.now, f.someContacts(m.name))
				f.watch(m)
			}
		}
	}
	return limit, false
}

// Nodes that start at once make one graph, in which no node lacks a neighbour. They do so again
// each time after up to a quarter of them died and others joined. With a small degree, a random
// graph of few nodes is often in parts. So nodes must notice parts in which no node lacks an edge.
func TestFewNodesMakeOneGraph(t *testing.T) {
	seed.NotUnderRace(t, "the fleet is one goroutine")
	seeds := 200
	if size, err := proof.Wanted(); err != nil {
		t.Fatal(err)
	} else if size == proof.Full {
		seeds = 10_000
	}
	var begun, healed []time.Duration
	for _, s := range seed.Numbers(t, seeds) {
		r := rand.New(rand.NewPCG(s, 0))
		degree := []int{2, 2, 3, 7}[r.IntN(4)]
		f := newFleet(t, r, degree)
		n := max(degree+1, []int{10, 4 + r.IntN(37)}[r.IntN(2)])
		one := func(all *[]time.Duration, limit time.Duration) bool {
			took, ok := f.oneGraphWithin(limit)
			if *all = append(*all, took); !ok {
				t.Errorf("seed %d, degree %d: of %d nodes %d are connected after %v, and %d ends "+
					"are missing", s, degree, len(f.alive()), f.countReached(), took,
					f.missingEdges())
			}
			return ok
		}
		f.startAtOnce(n)
		ok := one(&begun, startLimit)
		for range 4 {
			for range 1 + r.IntN(max(1, n/4)) {
				chooseRandom(r, f.alive()).node = nil
				if r.IntN(2) == 0 || len(f.alive()) <= degree {
					f.add(f.someContacts("")...)
				}
			}
			f.run(time.Second)
			ok = ok && one(&healed, healLimit)
		}
	}
	for what, all := range map[string][]time.Duration{"began": begun, "healed": healed} {
		if len(all) == 0 {
			continue
		}
		slices.Sort(all)
		t.Logf("%d fleets %s: half within %v, 99 %% within %v, all within %v", len(all), what,
			all[len(all)/2], all[len(all)*99/100], all[len(all)-1])
	}
}

// startLimit is the time after which nodes that started at once must be one graph. It is longer
// than healLimit: the walks of all nodes meet in the first few, which accept only some of them. A
// walk that was not accepted is repeated after WalkLife.
const startLimit = 90 * time.Second

// addPart adds nodes that have all their edges, but only among themselves.
func (f *fleet) addPart(size int) {
	first := len(f.nodes)
	name := func(i int) Name { return nodeName(first + (i+size)%size) }
	for i := range size {
		var c Config
		for by := 1; by <= f.degree; by++ {
			c.Outs, c.Ins = append(c.Outs, name(i+by)), append(c.Ins, name(i-by))
		}
		f.addNode(c)
	}
}

// Each of two parts has all its edges, so nobody lacks one. A node of the larger part knows a node
// of the smaller part. So the two become one graph.
func TestPartsBecomeOneGraph(t *testing.T) {
	seed.For(t, 20, func(t *testing.T, r *rand.Rand) {
		f := newFleet(t, r, 2+r.IntN(2))
		f.loss = 0.05
		small := f.degree + 1 + r.IntN(10)
		f.addPart(small)
		f.addPart(small + r.IntN(200))
		f.run(time.Minute)
		if n := f.countReached(); n != small || f.missingEdges() > 0 {
			t.Fatalf("%d nodes are connected, want the %d of the smaller part", n, small)
		}
		m := f.nodes[len(f.nodes)-1]
		m.node.Meet(f.now, []Name{nodeName(r.IntN(small))})
		f.watch(m)
		if took, ok := f.oneGraphWithin(startLimit); !ok {
			t.Errorf("%d of %d nodes are connected after %v", f.countReached(), len(f.nodes), took)
		}
	})
}

// A graph that is whole keeps its edges: no walk that looks for another part trades one. These
// walks are a small share of all messages, whatever the size of the graph.
func TestNoPartsAreFoundInAWholeGraph(t *testing.T) {
	seed.NotUnderRace(t, "the fleet is one goroutine")
	const most = 0.02 // of all messages
	for n, seeds := range map[int]int{10: 5, 40: 5, 400: 1} {
		seed.For(t, seeds, func(t *testing.T, r *rand.Rand) {
			f := newFleet(t, r, 7)
			f.startAtOnce(n)
			f.pauses = 0
			if _, ok := f.oneGraphWithin(startLimit); !ok {
				t.Fatal("no whole graph")
			}
			f.run(20 * time.Minute)
			edges := func() (all []Name) {
				for _, m := range f.nodes {
					outs, _ := m.node.Neighbours()
					all = append(append(all, m.name), outs...)
				}
				return all
			}
			before, sent, apart := edges(), f.sent, f.apart
			f.run(20 * time.Minute)
			share := float64(2*(f.apart-apart)) / float64(f.sent-sent) // each has an answer
			t.Logf("%d nodes: %.4f of all messages", n, share)
			if !slices.Equal(before, edges()) || share > most {
				t.Errorf("%d nodes: edges changed, or %v of all messages", n, share)
			}
		})
	}
}
