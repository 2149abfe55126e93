package coordinator

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/cloudprofiler/cloudprofiler/control"
	"github.com/cloudprofiler/cloudprofiler/tscratio"
)

// manyPairs makes a core with many nodes. Each node was measured with about eight other nodes for a
// minute. All counters run at the same rate, and differ only by offsets.
func manyPairs(t testing.TB, nodes int) *core {
	t.Helper()
	store, err := OpenStore(t.TempDir(), t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { store.Close() })
	now := time.Unix(1_800_000_000, 0)
	c, err := newCore(DefaultConfig(), store, nil, func() time.Time { return now }, nil)
	if err != nil {
		t.Fatal(err)
	}
	c.fill(t, nodes)
	return c
}

// fill adds the nodes and pairs of manyPairs.
func (c *core) fill(t testing.TB, nodes int) {
	now := c.now()
	r := rand.New(rand.NewPCG(1, 2))
	name := func(i int) string { return fmt.Sprintf("n%04d", i) }
	offset := make([]uint64, nodes)
	for i := range nodes {
		offset[i] = 1<<40 + r.Uint64N(1<<40)
		n := &node{peer: control.Peer(name(i)), lastHeard: now}
		n.registered = control.Register{Name: name(i), Epoch: "e", Nominal_hz: 2.5e9,
			Quantum_cycles: 1, ProbeAddress: "a:1", Capabilities: []string{control.CanProbe}}
		c.nodes[name(i)] = n
	}
	for i := range nodes {
		for range 4 {
			c.measure(t, r, name(i), name((i+1+r.IntN(nodes-1))%nodes), offset)
		}
	}
}

// measure adds a train every two seconds for a minute, unless the pair already has trains.
func (c *core) measure(t testing.TB, r *rand.Rand, a, b string, offset []uint64) {
	p, err := c.pairOf(c.nodes[a], c.nodes[b])
	if err != nil {
		t.Fatal(err)
	}
	if p.liveTrains.Trains() > 0 {
		return
	}
	var i, k int
	fmt.Sscanf(p.key.a, "n%d", &i)
	fmt.Sscanf(p.key.b, "n%d", &k)
	for at := 0.5 + r.Float64(); at < 60; at += 2 {
		var train tscratio.Train
		for e := range 10 {
			sent := uint64(2.5e9*at) + uint64(e)*500_000
			stamps := [4]uint64{sent, sent + 50_000 + r.Uint64N(20_000)}
			stamps[2] = stamps[1] + 5000
			stamps[3] = stamps[2] + 50_000 + r.Uint64N(20_000)
			one := func(k int, node int) tscratio.Interval {
				at := stamps[k] + offset[node]
				return tscratio.Interval{Lo: at, Hi: at + 1000}
			}
			train.Exchanges = append(train.Exchanges, tscratio.Exchange{Sent: one(0, i),
				Received: one(1, k), Answered: one(2, k), Returned: one(3, i)})
		}
		if err := p.liveTrains.Add(train); err != nil {
			t.Fatal(err)
		}
		p.readA, p.readB = train.Exchanges[5].Sent.Lo, train.Exchanges[5].Received.Lo
		p.reportedAt, p.trains = c.now(), p.trains+1
	}
	p.version++
}

// While the core is busy, the server answers questions about pairs.
func TestPairsBesideTheCore(t *testing.T) {
	link, err := control.Listen(control.ServerConfig{Address: "127.0.0.1:0"})
	if err != nil {
		t.Fatal(err)
	}
	defer link.Close()
	store, err := OpenStore(t.TempDir(), t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	s, err := NewServer(link, DefaultConfig(), store, nil)
	if err != nil {
		t.Fatal(err)
	}
	s.core.fill(t, 50)
	for _, n := range s.core.nodes {
		n.lastHeard = time.Now().Add(time.Hour) // the core must not take the nodes for dead
	}
	ctx, stop := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() {
		if err := s.Run(ctx); err != nil {
			t.Error(err)
		}
	})
	defer running.Wait()
	defer stop()
	asker, err := control.Dial(control.ClientConfig{Server: link.Address()})
	if err != nil {
		t.Fatal(err)
	}
	defer asker.Close()
	pair := func(from, into string) (a PairAnswer, err error) {
		limited, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		err = asker.Ask(limited, AskPair, PairRequest{from, into}, &a)
		return a, err
	}
	first, err := pair("n0001", "n0002")
	if err != nil || first.Pair.Bound_ns <= 0 {
		t.Fatalf("%+v, %v", first, err)
	}
	young := *s.core.evaluated.Load()
	young.evaluationTime = time.Hour // however slow this machine is, the evaluation is young enough
	s.core.evaluated.Store(&young)
	done := make(chan struct{})
	s.queuedCalls <- func() { <-done }
	for i := range uint64(100) { // these questions wait for the core, but do not delay the pairs
		ask := &control.Ask{What: AskRegistered}
		if err := asker.Send(t.Context(), 1<<40+i, ask); err != nil {
			t.Fatal(err)
		}
	}
	for range 20 {
		if a, err := pair("n0001", "n0002"); err != nil || !a.At.Equal(first.At) ||
			a.Pair.Bound_ns < first.Pair.Bound_ns {
			t.Errorf("%+v, %v, after %+v", a, err, first)
		}
	}
	if _, err := pair("n0001", "n0001"); !errors.Is(err, control.ErrRefused) {
		t.Errorf("a pair of one node: %v", err)
	}
	close(done)
	if _, err := pair("n0001", "stranger"); !errors.Is(err, control.ErrRefused) {
		t.Errorf("a stranger: %v", err)
	}
}

// The bytes of the messages that wait for the core are limited.
func TestBacklogIsBounded(t *testing.T) {
	b := newBacklog()
	if !b.add(t.Context(), backlogBytes+1) {
		t.Fatal("there is no room in the beginning")
	}
	ended, end := context.WithCancel(t.Context())
	end()
	if b.add(ended, 1) {
		t.Error("there is room beyond the limit")
	}
	added := make(chan bool)
	go func() { added <- b.add(t.Context(), 1) }()
	b.remove(backlogBytes)
	if !<-added || b.bytes.Load() != 2 {
		t.Errorf("%d bytes", b.bytes.Load())
	}
}

// In a large fleet, the server keeps only the trains that it evaluates.
func TestTrainsOfALargeFleet(t *testing.T) {
	bounds := func(m *Matrix) (all []float64) {
		for _, p := range m.Pairs {
			all = append(all, p.Bound_ns)
		}
		return all
	}
	for nodes, large := range map[int]bool{40: true, 20: false} {
		c := manyPairs(t, nodes)
		before := bounds(c.fleetCopy().evaluate())
		for _, p := range c.pairs {
			had := p.liveTrains.Trains()
			c.dropOld(p)
			if n := p.liveTrains.Trains(); (n <= largeTrains) != large || !large && n != had {
				t.Fatalf("%d of %d trains of a pair are kept among %d nodes", n, had, nodes)
			}
			p.lastEvaluation = nil
		}
		if after := bounds(c.fleetCopy().evaluate()); !slices.Equal(before, after) {
			t.Errorf("bounds among %d nodes changed:\n%.0f\n%.0f", nodes, before, after)
		}
	}
}

func heap() float64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return float64(m.HeapAlloc) / 1e6
}

// BenchmarkManyPairs evaluates a fleet of 1,000 nodes, and then asks for random pairs.
func BenchmarkManyPairs(b *testing.B) {
	c := manyPairs(b, 1000)
	before := heap()
	began := time.Now()
	m := c.fleetCopy().evaluate()
	took, more := time.Since(began), heap()-before
	r := rand.New(rand.NewPCG(1, 1))
	for b.Loop() {
		from, into := r.IntN(1000), r.IntN(1000)
		request := PairRequest{fmt.Sprintf("n%04d", from), fmt.Sprintf("n%04d", into)}
		_, err := m.pair(request, m.At)
		if err != nil && from != into {
			b.Fatal(err)
		}
	}
	b.ReportMetric(took.Seconds(), "s/evaluation")
	b.ReportMetric(more, "MB")
	b.ReportMetric(before, "MB-before")
	runtime.KeepAlive(c)
}
