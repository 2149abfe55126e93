package tscclient

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/cloudprofiler/cloudprofiler/internal/seed"
	"github.com/cloudprofiler/cloudprofiler/minrtt"
	"github.com/cloudprofiler/cloudprofiler/tscratio"
)

// fakeTrain returns a train between nodes whose counters count nanoseconds. The delay of each
// packet is random: between a given least delay and twice this delay.
func fakeTrain(r *rand.Rand, at, least uint64) minrtt.Train {
	var t minrtt.Train
	for range 3 {
		delay := func() uint64 { return least + r.Uint64N(least) }
		received := at + delay()
		answered := received + 500
		returned := answered + delay()
		t.Exchanges = append(t.Exchanges, minrtt.Exchange{
			Best: tscratio.Exchange{
				Sent: tscratio.At(at), Received: tscratio.At(received),
				Answered: tscratio.At(answered), Returned: tscratio.At(returned),
			},
			Sent: minrtt.Kernel, Received: minrtt.Kernel,
			Answered: minrtt.Kernel, Returned: minrtt.Missing,
		})
		at = returned + 1000
	}
	return t
}

func fakeNode(name string) tscratio.Node {
	return tscratio.Node{Name: name, Epoch: "e", Nominal_hz: 1e9, Quantum_cycles: 1}
}

// However many trains and peers there are, the number of trains that are kept is limited. The
// newest trains of each pair stay, and trains of ended pairs are dropped first.
func TestPairsStayWithinTheirMemory(t *testing.T) {
	seed.For(t, 2, func(t *testing.T, r *rand.Rand) {
		const most = 500
		p := newPairs(most, tscratio.DefaultAssumptions())
		at := uint64(1e9)
		add := func(own, peer tscratio.Node) {
			t.Helper()
			at += 100e6 + r.Uint64N(1e9)
			if _, err := p.addTrain(own, peer, fakeTrain(r, at, 5000)); err != nil {
				t.Fatal(err)
			}
			if _, n, _ := p.count(); n > most {
				t.Fatalf("%d trains are kept", n)
			}
		}
		a := fakeNode("a")
		for range 400 {
			add(a, fakeNode("old"))
		}
		a.Epoch = "e2"
		for range 2000 {
			add(a, fakeNode(fmt.Sprint("peer ", r.IntN(3))))
		}
		pairs, trains, forgotten := p.count()
		if pairs != 3 || trains < most/2 || uint64(trains)+forgotten != 2400 {
			t.Errorf("%d pairs, %d trains, %d forgotten", pairs, trains, forgotten)
		}
		for _, pair := range p.copyPairs() {
			if pair.Trains() < most/8 {
				t.Errorf("%d trains are left with %q", pair.Trains(), pair.B.Name)
			}
			if _, err := pair.Relate(tscratio.SideA, pair.Declared.Wander); err != nil {
				t.Errorf("with %q: %v", pair.B.Name, err)
			}
		}
	})
}

// Dropping and pruning trains changes no bound that is still needed. If the network becomes better
// or worse, the bound that the scheduler uses becomes narrower or wider.
func TestJudgedWidthFollowsTheNetwork(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 0))
	p := newPairs(1000, tscratio.DefaultAssumptions())
	a, b := fakeNode("a"), fakeNode("b")
	if w, known := p.halfWidth("e", b); known {
		t.Errorf("half-width of nothing is %v", w)
	}
	at := uint64(1e9)
	var widths []time.Duration
	for _, least := range []uint64{2_000, 40_000} {
		for range 4 * recentTrains {
			at += 500e6
			if c, err := p.addTrain(a, b, fakeTrain(r, at, least)); err != nil || c != nil {
				t.Fatal(c, err)
			}
			p.halfWidth("e", b)
		}
		w, known := p.halfWidth("e", b)
		if !known {
			t.Fatal("not known")
		}
		widths = append(widths, w)
	}
	if widths[0] < 1*time.Microsecond || widths[0] > 5*time.Microsecond ||
		widths[1] < 8*widths[0] {
		t.Errorf("half-widths %v on a near and on a far network", widths)
	}
}

func TestPairsCountStamps(t *testing.T) {
	p := newPairs(1000, tscratio.DefaultAssumptions())
	train := fakeTrain(rand.New(rand.NewPCG(1, 0)), 1e9, 1000)
	if _, err := p.addTrain(fakeNode("a"), fakeNode("b"), train); err != nil {
		t.Fatal(err)
	}
	for k := range p.copyPairs()[0].Kept() {
		if k.Stamps != (tscratio.Stamps{Kernel: 9, User: 3}) {
			t.Errorf("stamps %+v", k.Stamps)
		}
	}
	// Trains that are added later do not change a copy.
	c := p.copyPairs()[0]
	for i := range uint64(2 * pruneEvery) {
		train := fakeTrain(rand.New(rand.NewPCG(i, 0)), 2e9+i*500e6, 1000)
		if _, err := p.addTrain(fakeNode("a"), fakeNode("b"), train); err != nil {
			t.Fatal(err)
		}
	}
	if c.Trains() != 1 || c.Constraints() != 6 {
		t.Errorf("a copy has %d trains and %d constraints", c.Trains(), c.Constraints())
	}
	if now := p.copyPairs()[0]; now.Constraints() > now.Trains()*4 {
		t.Errorf("%d constraints of %d trains: nothing was pruned",
			now.Constraints(), now.Trains())
	}
}

// The arrival of a probe proves a constraint even if the answer proves nothing.
func TestLonelyArrivalsCount(t *testing.T) {
	p := newPairs(1000, tscratio.DefaultAssumptions())
	train := minrtt.Train{Arrivals: []minrtt.Arrival{
		{Sent: tscratio.At(100), Received: tscratio.At(300)},
	}}
	if _, err := p.addTrain(fakeNode("a"), fakeNode("b"), train); err != nil {
		t.Fatal(err)
	}
	for k := range p.copyPairs()[0].Kept() {
		want := tscratio.Constraint{Kind: tscratio.Lower, B: 300, A: 100}
		if len(k.Constraints) != 1 || k.Constraints[0] != want {
			t.Errorf("%+v", k)
		}
	}
	_, err := p.addTrain(fakeNode("a"), fakeNode("b"), minrtt.Train{})
	if err != nil || p.trains() != 1 {
		t.Errorf("an empty train: %v, %d trains", err, p.trains())
	}
}

func BenchmarkJudge(b *testing.B) {
	r := rand.New(rand.NewPCG(1, 0))
	p := newPairs(10_000, tscratio.DefaultAssumptions())
	at := uint64(1e9)
	for range 2*recentTrains - 1 {
		at += 500e6
		if _, err := p.addTrain(fakeNode("a"), fakeNode("b"), fakeTrain(r, at, 5000)); err != nil {
			b.Fatal(err)
		}
	}
	recent := p.known[pairKey{"e", "b", "e"}].recent
	for b.Loop() {
		medianBound(recent)
	}
}

func BenchmarkPrune(b *testing.B) {
	r := rand.New(rand.NewPCG(1, 0))
	p := newPairs(100_000, tscratio.DefaultAssumptions())
	at := uint64(1e9)
	for range 7200 {
		at += 500e6
		if _, err := p.addTrain(fakeNode("a"), fakeNode("b"), fakeTrain(r, at, 5000)); err != nil {
			b.Fatal(err)
		}
	}
	pair := p.known[pairKey{"e", "b", "e"}].pair
	for b.Loop() {
		pair.Prune()
	}
}

// If the budget is only a few trains a second, the pair with the noisy network gets most of them.
func TestNoisyPairsAreProbedMore(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 0))
	p := newPairs(10_000, tscratio.DefaultAssumptions())
	s, err := newScheduler(Budget{TrainsPerSecond: 4}, DefaultPace())
	if err != nil {
		t.Fatal(err)
	}
	// To the node "near", packets are fast, so a bound of a few hundred nanoseconds is possible.
	// For the node "noisy", no bound narrower than tens of microseconds is possible.
	least := map[string]uint64{"near": 300, "noisy": 60_000}
	s.setPeers([]string{"near", "noisy"})
	count := map[string]int{}
	at := time.Unix(1000, 0)
	for end := at.Add(5 * time.Minute); at.Before(end); {
		name, wait := s.nextPeer(at)
		if name == "" {
			at = at.Add(wait)
			continue
		}
		count[name]++
		s.noteBegin(name, at)
		train := fakeTrain(r, uint64(at.UnixNano()), least[name])
		at = at.Add(time.Millisecond)
		if _, err := p.addTrain(fakeNode("a"), fakeNode(name), train); err != nil {
			t.Fatal(err)
		}
		width, known := p.halfWidth("e", fakeNode(name))
		s.noteEnd(name, at, Cost{}, width, known)
	}
	if count["noisy"] < 3*count["near"] || count["near"] < 5*60/4 {
		t.Errorf("trains %v in 5 minutes", count)
	}
}

// A restarted peer measures its counter again. The peer's earlier trains stay, and the pair uses
// the largest core slack that the peer ever reported.
func TestPairsKeepWhatTheyKnowOfAPeerThatIsStartedAgain(t *testing.T) {
	p := newPairs(1000, tscratio.DefaultAssumptions())
	a, b := fakeNode("a"), fakeNode("b")
	for i, slack := range []uint64{50, 90, 20} {
		b.CoreSlack_cycles, b.Nominal_hz = slack, 1e9+uint64(i)
		train := fakeTrain(rand.New(rand.NewPCG(1, 0)), 1e9+uint64(i)*1e6, 1000)
		if _, err := p.addTrain(a, b, train); err != nil {
			t.Fatal(err)
		}
	}
	all := p.copyPairs()
	if len(all) != 1 || all[0].Trains() != 3 || all[0].B.CoreSlack_cycles != 90 {
		t.Errorf("%d pairs, the first of %d trains with %+v",
			len(all), all[0].Trains(), all[0].B)
	}
}
