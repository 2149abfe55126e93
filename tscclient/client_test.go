package tscclient

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cloudprofiler/cloudprofiler/asm"
	"github.com/cloudprofiler/cloudprofiler/internal/virtual"
	"github.com/cloudprofiler/cloudprofiler/minrtt"
	"github.com/cloudprofiler/cloudprofiler/tscratio"
	"github.com/cloudprofiler/cloudprofiler/vnode"
)

// testSlack_cycles is larger than the core slack of any machine that runs this test.
const testSlack_cycles = 2000

// testNode is a node of a test: virtual clocks, a client, and the truth about the clocks.
type testNode struct {
	*Client
	truth *vnode.Truth
	epoch atomic.Value // contains a string
	reset atomic.Int64 // number of cycles added to its counter
}

// loopback is an address of this process alone. When a node ends, other nodes still send to its
// port for a while. So at a common address, a node of this test could get what the nodes of another
// process sent to a node that ended.
var loopback = func() netip.AddrPort {
	pid := os.Getpid()
	return netip.AddrPortFrom(netip.AddrFrom4([4]byte{
		127, byte(pid >> 16), byte(pid >> 8), byte(pid)}), 0)
}()

// startNode starts a virtual node. The rate and the offset of its counter follow from its name.
func startNode(t *testing.T, name string, change func(*Config)) *testNode {
	t.Helper()
	r := rand.New(rand.NewPCG(uint64(len(name))+uint64(name[0]), 0))
	v := vnode.DefaultConfig()
	v.Name = name
	v.Counter.Origin = asm.Counter()
	v.Counter.Start = r.Uint64() >> 2
	v.Counter.Rate_2e40 = vnode.PPM(r.Float64()*80 - 40)
	notice, err := minrtt.OpenStepNotice()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { notice.Close() })
	system := minrtt.SystemClock(asm.Counter, notice, func() (uint32, error) { return 1, nil })
	clock, err := virtual.Clock(v, system)
	if err != nil {
		t.Fatal(err)
	}
	n := &testNode{}
	if n.truth, err = vnode.NewTruth(v.Counter); err != nil {
		t.Fatal(err)
	}
	n.epoch.Store("epoch 1 of " + name)
	counter := clock.Counter
	clock.Counter = func() uint64 { return counter() + uint64(n.reset.Load()) }
	config := DefaultConfig()
	config.Node = tscratio.Node{
		Name: name, Epoch: n.epoch.Load().(string), Nominal_hz: 2.6e9,
		Quantum_cycles: clock.Quantum_cycles, CoreSlack_cycles: testSlack_cycles,
	}
	config.Clock = clock
	config.Epoch = func() (string, error) { return n.epoch.Load().(string), nil }
	config.Listen = loopback
	config.Secret = minrtt.NewSecret()
	config.Manner.Timeout = time.Second
	if change != nil {
		change(&config)
	}
	if n.Client, err = Start(config); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { n.Close() })
	return n
}

func (n *testNode) peer() Peer {
	return Peer{Node: n.Node(), Address: n.Address(), Key: n.Key()}
}

// Trains between two nodes give a pair. Its intervals contain the true readings, in both
// directions. The trains use kernel stamps where the kernel provides them.
func TestTrainsHoldTheTruth(t *testing.T) {
	a, b := startNode(t, "a", nil), startNode(t, "b", nil)
	before := asm.Counter()
	for range 30 {
		o, err := a.Train(t.Context(), b.peer())
		if err != nil {
			t.Fatal(err)
		}
		if len(o.Train.Exchanges) == 0 || o.Cost.CPU <= 0 || o.Cost.Bytes == 0 ||
			o.Contradiction != nil {
			t.Fatalf("outcome %+v", o)
		}
	}
	after := asm.Counter()
	pairs := a.Pairs()
	if len(pairs) != 1 || pairs[0].A != a.Node() || pairs[0].B != b.Node() ||
		pairs[0].Trains() != 30 {
		t.Fatalf("pairs %+v", pairs)
	}
	pair, err := tscratio.DecodePair(pairs[0].Encode())
	if err != nil {
		t.Fatal(err)
	}
	for _, into := range []tscratio.Side{tscratio.SideA, tscratio.SideB} {
		r, err := pair.Relate(into, pair.Declared.Wander)
		if err != nil || r.Verdict != tscratio.Consistent {
			t.Fatalf("%v, %v", r, err)
		}
		from, to := b.truth, a.truth
		if into == tscratio.SideB {
			from, to = to, from
		}
		for i := range uint64(1000) {
			p := before + (after-before)/1000*i
			at, err := r.Translate(from.Reading(p))
			if err != nil || !at.Contains(to.Reading(p)) {
				t.Fatalf("reading %d is in %v, in truth %d: %v",
					from.Reading(p), at, to.Reading(p), err)
			}
		}
	}
	s := a.Stats()
	if s.Trains != 30 || s.Failed != 0 || s.Exchanges == 0 ||
		s.KernelStamps+s.UserStamps != 4*s.Exchanges || s.Pairs != 1 || s.KeptTrains != 30 {
		t.Errorf("stats %+v", s)
	}
	if got := b.Stats().Answers.Accepted; got == 0 {
		t.Error("the answerer counts nothing")
	}
}

// A node whose counter restarts in a new epoch gets a new pair. If the counter restarts and the
// node still claims the old epoch, the node's peer refuses the node's trains, and names the node in
// the error.
func TestResetsAndEpochs(t *testing.T) {
	a, b := startNode(t, "a", nil), startNode(t, "b", nil)
	train := func() (Outcome, error) { return a.Train(t.Context(), b.peer()) }
	if _, err := train(); err != nil {
		t.Fatal(err)
	}
	b.reset.Store(-1 << 40)
	_, err := train()
	if !errors.Is(err, minrtt.ErrReplayed) || !strings.Contains(err.Error(), `"b"`) ||
		!strings.Contains(err.Error(), "new epoch") {
		t.Errorf("a reset of the peer: %v", err)
	}
	b.epoch.Store("epoch 2 of b")
	if epoch, err := b.Check(); epoch != "epoch 2 of b" || err != nil || b.Node().Epoch != epoch {
		t.Errorf("%q, %v", epoch, err)
	}
	if _, err := train(); err != nil {
		t.Errorf("in its new epoch: %v", err)
	}
	a.epoch.Store("epoch 2 of a")
	if _, err := train(); err != nil {
		t.Error(err)
	}
	var got []string
	for _, p := range a.Pairs() {
		got = append(got, fmt.Sprintf("%s, %s, %d trains", p.A.Epoch, p.B.Epoch, p.Trains()))
	}
	want := "[epoch 1 of a, epoch 1 of b, 1 trains epoch 1 of a, epoch 2 of b, 1 trains " +
		"epoch 2 of a, epoch 2 of b, 1 trains]"
	if fmt.Sprint(got) != want {
		t.Errorf("pairs %v, want %v", got, want)
	}
	if s := a.Stats(); s.Refused != 1 || s.Epochs != 1 || s.Failed != 1 {
		t.Errorf("stats %+v", s)
	}
}

// The kernel stamps packets by its clock. If this clock is set during a train, only that train is
// lost.
func TestAClockThatIsSet(t *testing.T) {
	a := startNode(t, "a", nil)
	// A client calls Steps at the beginning and at the end of a train. If the variable set is true,
	// the clock of this test is set between the next two calls.
	var set atomic.Bool
	set.Store(true)
	b := startNode(t, "b", func(c *Config) {
		steps := c.Clock.Steps
		var before, times atomic.Uint64
		c.Clock.Steps = func() (uint64, error) {
			n, err := steps()
			if set.Load() && before.Add(1) == 2 {
				set.Store(false)
				before.Store(0)
				times.Add(1)
			}
			return n + times.Load(), err
		}
	})
	_, err := a.Train(t.Context(), b.peer())
	if !errors.Is(err, minrtt.ErrClockSet) {
		t.Errorf("train during which the clock was set: %v", err)
	}
	if _, err := a.Train(t.Context(), b.peer()); err != nil {
		t.Error(err)
	}
	if s := a.Stats(); s.ClocksSet != 1 || s.Trains != 1 || s.KeptTrains != 1 {
		t.Errorf("stats %+v", s)
	}
	set.Store(true)
	batch := runBatch(t.Context(), a.Client, b.peer(), a.Config().Manner, 3, 0)
	if batch.Err != nil || len(batch.Trains) != 2 {
		t.Errorf("a batch in which the clock was set once: %d trains, %v",
			len(batch.Trains), batch.Err)
	}
}

func TestAnotherKeyIsNamed(t *testing.T) {
	a := startNode(t, "a", func(c *Config) {
		c.Manner.Timeout, c.Manner.Attempts = 50*time.Millisecond, 2
	})
	b := startNode(t, "b", nil)
	p := b.peer()
	another := minrtt.NewSecret()
	p.Key = another.Key(1)
	_, err := a.Train(t.Context(), p)
	if !errors.Is(err, minrtt.ErrNoAnswer) || !strings.Contains(err.Error(), `probe "b"`) {
		t.Errorf("with another key: %v", err)
	}
	if got := b.Stats().Answers; got.Forged == 0 || got.Sent != 0 {
		t.Errorf("answerer's counts %+v", got)
	}
	for _, p := range []Peer{{}, {Node: b.Node()}, {Node: a.Node(), Address: b.Address()}} {
		if _, err := a.Train(t.Context(), p); err == nil {
			t.Errorf("peer %+v is probed", p)
		}
	}
}

// The client probes all living peers on its own, even if another peer is dead. Close ends this
// probing at once.
func TestProbingByItself(t *testing.T) {
	a := startNode(t, "a", func(c *Config) {
		c.Pace = Pace{
			Target: time.Nanosecond, Fastest: time.Millisecond, Slowest: 50 * time.Millisecond,
		}
	})
	b, c := startNode(t, "b", nil), startNode(t, "c", nil)
	dead := Peer{Node: c.Node(), Address: netip.MustParseAddrPort("127.0.0.1:9")}
	dead.Node.Name = "dead"
	seen := make(chan Outcome, 10_000)
	a.Observe(func(o Outcome) { seen <- o })
	manner := a.Config().Manner
	manner.Timeout, manner.Attempts = 100*time.Millisecond, 2
	all := []Peer{b.peer(), dead, c.peer()}
	if err := a.SetPeers(all, manner, Budget{TrainsPerSecond: 2000}); err != nil {
		t.Fatal(err)
	}
	count := map[string]int{}
	deadline := time.After(maxWait)
	for count["b"] < 20 || count["c"] < 20 || count["dead"] < 2 {
		select {
		case o := <-seen:
			count[o.Peer.Node.Name]++
			if !o.Continuous || o.Err == nil && o.Peer.Node.Name == "dead" ||
				o.Err != nil && !errors.Is(o.Err, minrtt.ErrNoAnswer) {
				t.Fatalf("outcome %+v", o)
			}
		case <-deadline:
			t.Fatalf("after %v: %v", maxWait, count)
		}
	}
	if err := a.SetPeers(nil, manner, Budget{}); err != nil {
		t.Fatal(err)
	}
	if err := a.SetPeers([]Peer{{}}, manner, Budget{}); err == nil {
		t.Error("a peer without an address is accepted")
	}
	begin := time.Now()
	a.Close()
	if took := time.Since(begin); took > 5*time.Second {
		t.Errorf("closing took %v", took)
	}
	if _, err := a.Train(t.Context(), b.peer()); !errors.Is(err, ErrClosed) {
		t.Errorf("train after Close: %v", err)
	}
}

// A train that waits for a dead peer ends when its context ends, and when the client is closed.
func TestTrainEndsWithItsContext(t *testing.T) {
	a := startNode(t, "a", func(c *Config) {
		c.Manner.Timeout, c.Manner.Attempts = time.Minute, 100
	})
	// Nobody reads the packets that arrive at this socket.
	silent, err := minrtt.ListenUDP(loopback, minrtt.UDPConfig{Counter: asm.Counter})
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	p := Peer{Node: tscratio.Node{Name: "silent", Nominal_hz: 1e9}, Address: silent.LocalAddr()}
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Millisecond)
	defer cancel()
	if _, err := a.Train(ctx, p); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("%v", err)
	}
	var trains sync.WaitGroup
	for range 3 { // one train runs, and the other two wait until it is over
		trains.Add(1)
		go func() {
			defer trains.Done()
			if _, err := a.Train(context.Background(), p); !errors.Is(err, ErrClosed) {
				t.Errorf("%v", err)
			}
		}()
	}
	time.Sleep(20 * time.Millisecond) // any time will do: Close must end trains in any state
	a.Close()
	trains.Wait()
}

func TestConfigIsChecked(t *testing.T) {
	good := DefaultConfig()
	good.Node = tscratio.Node{Name: "a", Nominal_hz: 1e9}
	good.Clock.Counter = asm.Counter
	if err := good.Validate(); err != nil {
		t.Fatal(err)
	}
	for want, change := range map[string]func(*Config){
		"no name":      func(c *Config) { c.Node.Name = "" },
		"no counter":   func(c *Config) { c.Clock.Counter = nil },
		"listen":       func(c *Config) { c.Listen = netip.AddrPort{} },
		"max trains":   func(c *Config) { c.MaxTrains = 1 },
		"window":       func(c *Config) { c.Node.Nominal_hz = 0 },
		"manner":       func(c *Config) { c.Manner.Exchanges = 0 },
		"pace":         func(c *Config) { c.Pace.Target = 0 },
		"budget":       func(c *Config) { c.Budget.CPUShare = 7 },
		"start client": func(c *Config) { c.Listen = netip.MustParseAddrPort("192.0.2.77:1") },
	} {
		c := good
		change(&c)
		client, err := Start(c)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", want, err)
		}
		if client != nil {
			client.Close()
		}
	}
}

// A client refuses a peer whose stamps say that an answer left before its probe arrived. The error
// names the peer, and the client keeps nothing of the train.
func TestALiarIsRefusedByName(t *testing.T) {
	a := startNode(t, "a", nil)
	liar := startNode(t, "liar", func(c *Config) {
		counter := c.Clock.Counter
		var reads atomic.Int64
		c.Clock.Counter = func() uint64 { // each reading is below the previous one
			return counter() - uint64(reads.Add(1))*10_000_000
		}
	})
	_, err := a.Train(t.Context(), liar.peer())
	if !errors.Is(err, tscratio.ErrImpossible) && !errors.Is(err, minrtt.ErrReplayed) ||
		!strings.Contains(err.Error(), `"liar"`) {
		t.Errorf("%v", err)
	}
	if s := a.Stats(); s.Refused != 1 || s.KeptTrains != 0 {
		t.Errorf("stats %+v", s)
	}
}

// If a node's epoch ends during a train, the client keeps nothing of the train, because some of its
// stamps may belong to the next epoch.
func TestAnEpochThatEndsDuringATrain(t *testing.T) {
	var looks atomic.Int64
	a := startNode(t, "a", func(c *Config) {
		c.Epoch = func() (string, error) {
			if looks.Add(1) == 2 {
				return "epoch 2 of a", nil
			}
			return "epoch 1 of a", nil
		}
	})
	b := startNode(t, "b", nil)
	if _, err := a.Train(t.Context(), b.peer()); !errors.Is(err, tscratio.ErrEpoch) {
		t.Errorf("%v", err)
	}
	if s := a.Stats(); s.KeptTrains != 0 || s.Failed != 1 {
		t.Errorf("stats %+v", s)
	}
	blind := startNode(t, "c", func(c *Config) {
		c.Epoch = func() (string, error) { return "", errors.New("proc is hidden") }
	})
	_, err := blind.Train(t.Context(), b.peer())
	if err == nil || !strings.Contains(err.Error(), "proc is hidden") {
		t.Errorf("a node that cannot see its epoch: %v", err)
	}
}

// Any goroutine may call any method at any time. Trains still run one after another.
func TestManyAtOnce(t *testing.T) {
	a := startNode(t, "a", nil)
	var peers []Peer
	for _, name := range []string{"b", "c", "d"} {
		peers = append(peers, startNode(t, name, nil).peer())
	}
	var under atomic.Int64
	a.Observe(func(Outcome) {
		if under.Add(1) != 1 {
			t.Error("two trains at once")
		}
		time.Sleep(time.Millisecond)
		under.Add(-1)
	})
	if err := a.SetPeers(peers, a.Config().Manner, Budget{TrainsPerSecond: 1000}); err != nil {
		t.Fatal(err)
	}
	var all sync.WaitGroup
	for i := range 6 {
		all.Add(1)
		go func() {
			defer all.Done()
			for range 5 {
				if _, err := a.Train(t.Context(), peers[i%3]); err != nil {
					t.Error(err)
				}
				a.Stats()
				for _, p := range a.Pairs() {
					p.Prune()
				}
				if _, err := a.Check(); err != nil {
					t.Error(err)
				}
			}
		}()
	}
	all.Wait()
	if s := a.Stats(); s.Trains < 30 || s.Pairs != 3 {
		t.Errorf("stats %+v", s)
	}
}
