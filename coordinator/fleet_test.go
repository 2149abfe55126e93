package coordinator

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/cloudprofiler/cloudprofiler/control"
	"github.com/cloudprofiler/cloudprofiler/internal/seed"
	"github.com/cloudprofiler/cloudprofiler/minrtt"
)

// fleet is a core with a simulated network, simulated clients and a simulated clock. Nothing
// sleeps, and the seed determines everything that happens.
type fleet struct {
	t       *testing.T
	r       *rand.Rand
	time    time.Duration
	begin   time.Time
	events  []event
	core    *core
	config  Config
	store   *Store
	clients map[string]*fakeClient
	byPeer  map[control.Peer]*fakeClient
	peers   int

	forgotten map[control.Peer]bool
	asked     map[uint64]control.Message // the answers to questions
	asks      uint64
	active    map[string]bool // nodes that take part in a probe at this moment
	clashes   int             // how often a node was asked to take part in two probes at once
	probed    map[[2]string]int
	links     map[[2]string]link // from one node to another; an absent link has the default delays

	// acknowledged, if not nil, is called with each report that the server acknowledged.
	acknowledged func(of *fakeClient, m *control.Trains)

	holders    map[minrtt.Key]map[*fakeClient]bool // the clients that were given each key
	madeAt     map[minrtt.Key]time.Duration        // when each key was first used
	oldest     time.Duration                       // the longest time for which any key was used
	unanswered int                                 // number of trains refused because of their key
}

// link says how long a packet takes: at least base, and a random time of at most noise in addition.
type link struct{ base, noise time.Duration }

type event struct {
	at time.Duration
	do func()
}

func newFleet(t *testing.T, config Config, names ...string) *fleet {
	t.Helper()
	store, err := OpenStore(t.TempDir(), t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	f := &fleet{
		t: t, r: seed.Random(t), begin: time.Unix(1_800_000_000, 0), config: config, store: store,
		clients: map[string]*fakeClient{}, byPeer: map[control.Peer]*fakeClient{},
		forgotten: map[control.Peer]bool{}, asked: map[uint64]control.Message{},
		active: map[string]bool{}, probed: map[[2]string]int{}, links: map[[2]string]link{},
		holders: map[minrtt.Key]map[*fakeClient]bool{}, madeAt: map[minrtt.Key]time.Duration{},
	}
	t.Cleanup(func() { store.Close() })
	f.startCore()
	for _, name := range names {
		f.join(name)
	}
	return f
}

func testConfig() Config {
	c := DefaultConfig()
	c.Sweep = SweepOptions{
		Trains: 2, Exchanges: 10, Gap: time.Millisecond,
		Timeout: 100 * time.Millisecond, Attempts: 3,
	}
	c.SweepEvery = 0
	c.Budget /= seed.Share()
	return c
}

func names(n int) (all []string) {
	for i := range n {
		all = append(all, fmt.Sprintf("n%02d", i))
	}
	return all
}

func (f *fleet) now() time.Time { return f.begin.Add(f.time) }

func (f *fleet) startCore() {
	f.t.Helper()
	core, err := newCore(f.config, f.store, f, f.now, nil)
	if err != nil {
		f.t.Fatal(err)
	}
	f.core = core
}

// restart ends the core without a last save and starts another core with the same store.
func (f *fleet) restart() {
	f.startCore()
	for _, c := range f.clients { // their connections are gone
		delete(f.byPeer, c.peer)
		c.peer = ""
	}
}

func (f *fleet) after(d time.Duration, do func()) {
	f.events = append(f.events, event{f.time + d, do})
}

// run lets time pass until a condition holds or the limit is reached.
func (f *fleet) run(limit time.Duration, until func() bool) bool {
	end := f.time + limit
	for steps := 0; ; steps++ {
		if until != nil && until() {
			return true
		}
		if steps > 5_000_000 {
			f.t.Fatal("the events do not end")
		}
		next := max(f.time, f.core.nextTick().Sub(f.begin))
		i := -1
		for j, e := range f.events {
			if e.at < next || e.at == next && i < 0 {
				next, i = e.at, j
			}
		}
		if next > end {
			f.time = end
			return until != nil && until()
		}
		f.time = next
		if i >= 0 {
			do := f.events[i].do
			f.events = slices.Delete(f.events, i, i+1)
			do()
			continue
		}
		f.core.tick()
	}
}

// Send delivers a message to a client. It is a method of Link.
func (f *fleet) Send(to control.Peer, request uint64, m control.Message) error {
	if _, err := control.Encode(m, request); err != nil {
		f.t.Errorf("core sends what any receiver would refuse: %v", err)
		return err
	}
	if to == "admin" {
		f.asked[request] = m
		return nil
	}
	f.after(50*time.Microsecond, func() {
		if c := f.byPeer[to]; c != nil && c.state == clientRunning && !c.isCut {
			c.receive(request, m)
		}
	})
	return nil
}

// Forget and Admit record whether the server treats a peer as registered. They are methods of Link.
func (f *fleet) Forget(p control.Peer) { f.forgotten[p] = true }
func (f *fleet) Admit(p control.Peer)  { delete(f.forgotten, p) }

// ask asks the core a question and returns the answer.
func (f *fleet) ask(what string, argument any) control.Message {
	f.t.Helper()
	var text json.RawMessage
	if argument != nil {
		text, _ = json.Marshal(argument)
	}
	f.asks++
	question := &control.Ask{What: what, Argument: text}
	f.core.handle(control.Incoming{Peer: "admin", Request: f.asks, Message: question})
	return f.asked[f.asks]
}

// holdsTruth returns the true reading for a bound, and whether the bound contains it.
func (f *fleet) holdsTruth(p PairStatus) (truth uint64, ok bool) {
	from, into := f.clients[p.From], f.clients[p.Into]
	truth = into.counter(time.Duration(float64(p.Reading_cycles-from.offset) / from.rate))
	const slop = 8 // rounding in float64, in cycles
	return truth, truth+slop >= p.Lo_cycles && truth <= p.Hi_cycles+slop
}

// wantTrue compares every bound of the matrix with the truth.
func (f *fleet) wantTrue() *Matrix {
	f.t.Helper()
	m := f.core.fleetCopy().evaluate()
	for _, p := range m.Pairs {
		if p.Hi_cycles == 0 {
			continue
		}
		if truth, ok := f.holdsTruth(p); !ok {
			f.t.Errorf("%s in cycles of %s is [%d, %d], and %d in truth",
				p.From, p.Into, p.Lo_cycles, p.Hi_cycles, truth)
		}
	}
	return m
}
