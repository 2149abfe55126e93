package tscclient

import (
	"context"
	"errors"
	"os"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/cloudprofiler/cloudprofiler/control"
	"github.com/cloudprofiler/cloudprofiler/tscratio"
)

// testServer is a server that does only what a link needs.
type testServer struct {
	*control.Server
	t    *testing.T
	peer control.Peer
	name string

	// A client that the server does not answer for this time registers again. The server answers
	// only while expectMessage runs, and a busy machine may keep the test from calling it. So this
	// time is long, except in tests of a server that is away.
	dead time.Duration

	seen []control.Incoming // messages that arrived, and that expectMessage has not returned yet
}

func listen(t *testing.T, address, name string) *testServer {
	t.Helper()
	var s *control.Server
	var err error
	for range 50 { // the port of a server that just ended may be free only after a moment
		if s, err = control.Listen(control.ServerConfig{Address: address}); err == nil {
			break
		}
		time.Sleep(20 * time.Millisecond)
	}
	if err != nil {
		t.Fatal(err)
	}
	return &testServer{Server: s, t: t, name: name, dead: maxWait}
}

// expectMessage returns the next message of a kind. It answers pings, and keeps other messages for
// later calls. If the test is so slow that a client registers again, expectMessage welcomes it.
func expectMessage[M control.Message](s *testServer) (M, uint64) {
	s.t.Helper()
	for i, in := range s.seen {
		if m, ok := in.Message.(M); ok {
			s.seen = append(s.seen[:i:i], s.seen[i+1:]...)
			return m, in.Request
		}
	}
	ctx, cancel := context.WithTimeout(s.t.Context(), maxWait)
	defer cancel()
	for {
		in, err := s.Receive(ctx)
		if err != nil {
			var want M
			s.t.Fatalf("waiting for %T: %v", want, err)
		}
		if _, ok := in.Message.(*control.Ping); ok {
			_ = s.Send(in.Peer, in.Request, &control.Pong{})
		}
		if m, ok := in.Message.(M); ok {
			s.peer = in.Peer
			return m, in.Request
		}
		if _, ok := in.Message.(*control.Register); ok {
			_ = s.Send(in.Peer, in.Request, s.greeting())
			continue
		}
		s.seen = append(s.seen, in)
	}
}

func (s *testServer) welcome() *control.Register {
	s.t.Helper()
	r, request := expectMessage[*control.Register](s)
	s.order(request, s.greeting())
	return r
}

func (s *testServer) greeting() *control.Welcome {
	return &control.Welcome{
		Server: s.name, Heartbeat_ns: 20e6, Dead_ns: int64(s.dead), Generation: 1,
	}
}

func (s *testServer) order(request uint64, m control.Message) {
	s.t.Helper()
	if err := s.Send(s.peer, request, m); err != nil {
		s.t.Fatal(err)
	}
}

func target(n *testNode) control.Target {
	p := n.peer()
	return control.Target{
		Peer: p.Node.Name, PeerEpoch: p.Node.Epoch, Address: p.Address.String(),
		Key: p.Key.Encode(), Nominal_hz: p.Node.Nominal_hz,
		Quantum_cycles: p.Node.Quantum_cycles, CoreSlack_cycles: p.Node.CoreSlack_cycles,
	}
}

var testManner = control.Manner{Exchanges: 3, Timeout_ns: 1e9, Attempts: 3}

func connect(t *testing.T, n *testNode, server string, change func(*LinkConfig)) *Link {
	t.Helper()
	config := LinkConfig{
		Server: control.ClientConfig{Server: server},
		Register: control.Register{
			Machine: "m", Cores: 2, Software: "test", Capabilities: []string{control.CanRun},
		},
	}
	if change != nil {
		change(&config)
	}
	l, err := Connect(n.Client, config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	return l
}

// A server commands a client. The client registers with the description of its node. When the
// server orders it, the client runs a batch of trains, probes on its own or measures its load. It
// keeps its reports until the server acknowledges them.
func TestServerCommandsAClient(t *testing.T) {
	s := listen(t, "127.0.0.1:0", "server 1")
	defer s.Close()
	a, b := startNode(t, "a", nil), startNode(t, "b", nil)
	l := connect(t, a, s.Address(), func(c *LinkConfig) {
		c.Handle = func(_ context.Context, m control.Message) (control.Message, error) {
			switch m.(type) {
			case *control.Run:
				return &control.RunState{Name: "x", Channels: 7}, nil
			case *control.Table:
				return nil, errors.New("table is no table")
			}
			return nil, nil
		}
	})
	r := s.welcome()
	n := a.Node()
	if r.Name != "a" || r.Epoch != n.Epoch || r.Nominal_hz != n.Nominal_hz ||
		r.Quantum_cycles != n.Quantum_cycles || r.ProbeAddress != a.Address().String() ||
		!r.Can(control.CanProbe) || !r.Can(control.CanRun) || r.Instance == "" {
		t.Errorf("registers as %+v", r)
	}
	s.order(7, &control.Probe{Target: target(b), Manner: testManner, Trains: 4, Limit_ns: 20e9})
	m, request := expectMessage[*control.Trains](s)
	if request != 7 || m.Report != 1 || m.Peer != "b" || m.PeerEpoch != b.Node().Epoch ||
		m.Epoch != n.Epoch || m.Error != "" || len(m.Trains) != 4 {
		t.Fatalf("answer %d to a batch: %+v", request, m)
	}
	for _, train := range m.Trains {
		if len(train.Exchanges) != 3 && len(train.Exchanges) != 4 ||
			train.Exchanges[0].Returned.Hi <= train.Exchanges[0].Sent.Lo {
			t.Fatalf("train %+v", train)
		}
	}
	s.order(8, &control.LoadRequest{Over_ns: 30e6})
	load, request := expectMessage[*control.Load](s)
	if request != 8 || load.Over_ns < 30e6 || load.Busy_ppm < -1 {
		t.Errorf("load %+v", load)
	}
	s.order(9, &control.Run{Name: "x"})
	if state, request := expectMessage[*control.RunState](s); request != 9 || state.Channels != 7 {
		t.Errorf("run state %+v", state)
	}
	s.order(10, &control.Snapshot{})
	refusal, request := expectMessage[*control.Refusal](s)
	if request != 10 || refusal.Code != control.UnknownKind {
		t.Errorf("refusal %+v", refusal)
	}
	s.order(11, &control.Table{})
	refusal, request = expectMessage[*control.Refusal](s)
	if request != 11 || refusal.Code != control.Failed ||
		!strings.Contains(refusal.Text, "no table") {
		t.Errorf("refusal %+v", refusal)
	}
	if state := l.State(); !state.Registered || state.Server != "server 1" || state.Reports != 1 {
		t.Errorf("state %+v", state)
	}
	s.order(0, &control.Ack{Report: 1})

	s.order(12, &control.Probing{
		Manner: testManner, Targets: []control.Target{target(b)}, Period_ns: 10e6,
	})
	expectMessage[*control.Done](s)
	m, request = expectMessage[*control.Trains](s)
	if request != 0 || m.Report != 2 || m.Peer != "b" || len(m.Trains) == 0 || m.Error != "" {
		t.Fatalf("report %d: %+v", request, m)
	}
	s.order(13, &control.Probing{})
	for { // the reports of earlier trains arrive first
		if m, request := expectMessage[control.Message](s); request == 13 {
			if _, ok := m.(*control.Done); !ok {
				t.Errorf("answer %T", m)
			}
			break
		}
	}
	s.order(0, &control.Ack{Report: 1000})
	waitFor(t, func() bool { return l.State().Reports == 0 })
}

func waitFor(t *testing.T, true func() bool) {
	t.Helper()
	for end := time.Now().Add(maxWait); !true(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("it does not become true")
		}
	}
}

// If the server sends two handler tables, the client applies the second table last, even if
// applying the first table takes long. Other orders do not wait for tables.
func TestTheLastTableHolds(t *testing.T) {
	s := listen(t, "127.0.0.1:0", "server 1")
	defer s.Close()
	release := make(chan struct{})
	handled := make(chan uint64, 2)
	connect(t, startNode(t, "a", nil), s.Address(), func(c *LinkConfig) {
		c.Handle = func(ctx context.Context, m control.Message) (control.Message, error) {
			table, ok := m.(*control.Table)
			if !ok {
				return &control.Files{Run: "r", Files: []control.File{}}, nil
			}
			if table.Generation == 1 {
				select {
				case <-release:
				case <-ctx.Done():
				}
			}
			handled <- table.Generation
			return &control.TableState{Generation: table.Generation}, nil
		}
	})
	s.welcome()
	s.order(1, &control.Table{Generation: 1})
	s.order(2, &control.Table{Generation: 2})
	for request := range uint64(20) { // meanwhile the second table could overtake the first
		s.order(3+request, &control.ListFiles{Run: "r"})
		expectMessage[*control.Files](s)
	}
	close(release)
	for want := uint64(1); want <= 2; want++ {
		state, request := expectMessage[*control.TableState](s)
		if got := <-handled; got != want || state.Generation != want || request != want {
			t.Errorf("table %d is handled and answered with %+v (%d), want %d",
				got, state, request, want)
		}
	}
}

// The link registers again by itself in three cases: the server is a new process, the node has
// another epoch, or the server forgot the client. The client sends unacknowledged reports again.
func TestLinkComesBack(t *testing.T) {
	s := listen(t, "127.0.0.1:0", "server 1")
	a, b := startNode(t, "a", nil), startNode(t, "b", nil)
	l := connect(t, a, s.Address(), nil)
	first := s.welcome()
	s.order(1, &control.Probe{Target: target(b), Manner: testManner, Trains: 1})
	if m, _ := expectMessage[*control.Trains](s); m.Report != 1 {
		t.Fatalf("%+v", m)
	}
	s.order(2, &control.Probing{
		Manner: testManner, Targets: []control.Target{target(b)}, Period_ns: 10e6,
	})
	expectMessage[*control.Done](s)

	s.Forget(s.peer)
	if again := s.welcome(); again.Instance != first.Instance {
		t.Errorf("instance %q became %q", first.Instance, again.Instance)
	}
	if m, request := expectMessage[*control.Trains](s); m.Report != 1 || request != 0 {
		t.Errorf("first report again: %d, %+v", request, m)
	}
	s.dead = 400 * time.Millisecond // from now on the client notices when the server is away
	a.epoch.Store("epoch 2 of a")
	if again := s.welcome(); again.Epoch != "epoch 2 of a" {
		t.Errorf("registers again with epoch %q", again.Epoch)
	}

	probed := func() int {
		a.mu.Lock()
		defer a.mu.Unlock()
		return len(a.probing.peers)
	}
	if n := probed(); n != 1 {
		t.Fatalf("%d peers are probed, want 1", n)
	}
	address := s.Address()
	s.Close()
	waitFor(t, func() bool { return !l.State().Registered })
	s = listen(t, address, "server 2")
	defer s.Close()
	s.welcome()
	waitFor(t, func() bool { return l.State().Server == "server 2" })
	if n := probed(); n > 0 {
		t.Errorf("%d peers are probed after the server that ordered it was gone", n)
	}
	l.Close()
	expectMessage[*control.Leave](s)
}

// A link observes its client's trains. When links are closed, the client forgets them, but still
// calls its other observers.
func TestAClosedLinkIsToldNothing(t *testing.T) {
	a, b := startNode(t, "a", nil), startNode(t, "b", nil)
	told := 0
	stop := a.Observe(func(Outcome) { told++ })
	for range 3 {
		if err := connect(t, a, "127.0.0.1:1", nil).Close(); err != nil {
			t.Fatal(err)
		}
	}
	if n := len(a.observers); n != 1 {
		t.Errorf("%d observe the client after its links are closed, want 1", n)
	}
	for want := range 2 {
		if _, err := a.Train(t.Context(), b.peer()); err != nil {
			t.Fatal(err)
		}
		stop()
		if told != 1 {
			t.Errorf("told %d times after %d trains", told, want+1)
		}
	}
}

// A link that is refused tries again, and waits longer before each try.
func TestPausesGrow(t *testing.T) {
	s := listen(t, "127.0.0.1:0", "server")
	defer s.Close()
	connect(t, startNode(t, "a", nil), s.Address(), nil)
	var first time.Time
	least := time.Duration(0)
	for pause := firstPause; pause <= 8*firstPause; pause *= 2 {
		_, request := expectMessage[*control.Register](s)
		if first.IsZero() {
			first = time.Now()
		}
		s.Forget(s.peer)
		s.order(request, &control.Refusal{Code: control.NameTaken, Text: "not now"})
		least += pause
	}
	s.welcome()
	if took := time.Since(first); took < least {
		t.Errorf("it was refused four times within %v, want at least %v "+
			"between the first and the last time", took, least)
	}
}

func TestBatchIsGivenUpByName(t *testing.T) {
	s := listen(t, "127.0.0.1:0", "server")
	defer s.Close()
	a, b := startNode(t, "a", nil), startNode(t, "b", nil)
	connect(t, a, s.Address(), nil)
	s.welcome()
	quick := control.Manner{Exchanges: 3, Timeout_ns: 20e6, Attempts: 2}
	dead := target(b)
	dead.Address = "127.0.0.1:9"
	s.order(1, &control.Probe{Target: dead, Manner: quick, Trains: 1000})
	m, request := expectMessage[*control.Trains](s)
	if request != 1 || len(m.Trains) != 0 || !strings.Contains(m.Error, `probe "b"`) {
		t.Errorf("%+v", m)
	}
	// The limit ends the batch in the gap after the first train. On a busy machine, even that train
	// may take longer than a limit. So the test doubles the limit until the train ends within it.
	for limit := 100 * time.Millisecond; ; limit *= 2 {
		s.order(2, &control.Probe{Target: target(b), Manner: testManner, Trains: 1000,
			Gap_ns: int64(time.Hour), Limit_ns: int64(limit)})
		m, request = expectMessage[*control.Trains](s)
		if request != 2 || !strings.Contains(m.Error, "deadline") || len(m.Trains) > 1 ||
			len(m.Trains) == 0 && limit > 10*time.Second {
			t.Errorf("%+v", m)
		}
		if len(m.Trains) > 0 || limit > 10*time.Second {
			break
		}
	}
	self := target(a)
	s.order(3, &control.Probe{Target: self, Manner: testManner, Trains: 1})
	m, request = expectMessage[*control.Trains](s)
	if request != 3 || !strings.Contains(m.Error, `both nodes are named "a"`) {
		t.Errorf("%+v", m)
	}
}

func TestReportsAreKeptWithinTheirMemory(t *testing.T) {
	var sent []uint64
	broken := true
	r := newReports(func(_ context.Context, m *control.Trains) error {
		if broken {
			return control.ErrUnreachable
		}
		sent = append(sent, m.Report)
		return nil
	})
	for range (maxReports + 3) * maxCollected {
		r.collectTrain(Outcome{Peer: Peer{Node: tscratio.Node{Name: "b"}}})
	}
	r.sendAll(t.Context(), true)
	if kept, dropped := r.count(); kept != maxReports || dropped != 3 || sent != nil {
		t.Fatalf("%d reports kept, %d dropped, %d sent", kept, dropped, len(sent))
	}
	broken = false
	r.sendAll(t.Context(), false)
	if sent != nil {
		t.Fatal("sent while nobody listens")
	}
	r.sendAll(t.Context(), true)
	if len(sent) != maxReports || sent[0] != 4 || sent[maxReports-1] != maxReports+3 {
		t.Fatalf("%d sent, from %d on", len(sent), sent[0])
	}
	r.dropAcknowledged(10)
	sent = nil
	r.sendAgain()
	r.sendAll(t.Context(), true)
	if len(sent) != maxReports-7 || sent[0] != 11 {
		t.Errorf("%d sent again, from %d on", len(sent), sent[0])
	}
}

func TestLoadIsParsed(t *testing.T) {
	cpu, err := parseCPU([]byte("cpu  100 20 30 4000 5 6 7 8 90 9\ncpu0 1 2\n"))
	if err != nil || cpu != (cpuTimes{busy: 171, idle: 4005}) {
		t.Errorf("%+v, %v", cpu, err)
	}
	net, err := parseTraffic([]byte("Inter-| Receive\n face |bytes\n" +
		"    lo: 9 1 0 0 0 0 0 0 9 1 0 0 0 0 0 0\n" +
		"  eth0: 100 1 0 0 0 0 0 0 50 1 0 0 0 0 0 0\n" +
		"  eth1:7 1 0 0 0 0 0 0 3 1 0 0 0 0 0 0\n"))
	if err != nil || net != (trafficBytes{107, 53}) {
		t.Errorf("%+v, %v", net, err)
	}
	for _, text := range []string{"", "cpu 1", "cpu a b c d e f", "intr 1 2 3 4 5 6"} {
		if _, err := parseCPU([]byte(text)); err == nil {
			t.Errorf("%q is parsed", text)
		}
	}
	for _, text := range []string{"eth0: 1", "eth0: a 1 1 1 1 1 1 1 1"} {
		if _, err := parseTraffic([]byte(text)); err == nil {
			t.Errorf("%q is parsed", text)
		}
	}
	at := time.Unix(0, 0)
	first := loadLook{at: at, cpu: cpuTimes{100, 1000}, traffic: trafficBytes{1000, 1000}}
	second := loadLook{
		at: at.Add(time.Second), cpu: cpuTimes{160, 1140}, traffic: trafficBytes{3000, 2000},
		own_ns: 100e6, ownBytes: 1000,
	}
	got := loadBetween(first, second)
	if got.Busy_ppm != 250_000 || got.ReceivedBytes != 1500 || got.SentBytes != 500 ||
		got.Over_ns != 1e9 || len(got.Unknown) != 0 {
		t.Errorf("%+v", got)
	}
	second.unknownTraffic = errors.New("hidden")
	if got := loadBetween(first, second); len(got.Unknown) != 1 || got.ReceivedBytes != 0 {
		t.Errorf("%+v", got)
	}
}

func TestIdentityOfThisMachine(t *testing.T) {
	id, err := Identify("here", Kept{})
	if err != nil {
		// An emulated machine has no usable counter.
		if os.Getenv("CI") == "true" && runtime.GOARCH == "amd64" {
			t.Fatalf("%v: CI must run where nodes can", err)
		}
		t.Skipf("this machine's counter is not fit: %v", err)
	}
	defer id.Close()
	n := id.Node
	epoch, err := id.Epoch()
	if err != nil || epoch == "" || epoch != n.Epoch || n.Name != "here" ||
		n.Nominal_hz < 1e6 || n.Quantum_cycles == 0 {
		t.Errorf("%+v, %q, %v", n, epoch, err)
	}
	if id.Counter() == 0 {
		t.Error("counter reads 0")
	}
	id.Close()
	if _, err := id.Epoch(); err == nil {
		t.Error("a closed identity answers")
	}
}
