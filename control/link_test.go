package control

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/pebbe/zmq4"
)

// fleet is a server with keys, and everything that a client of the server needs.
type fleet struct {
	server  *Server
	key     Key
	clients []Key
	listed  []Key
	logged  *serverLog
	t       *testing.T
}

// patience is how long a test waits for what must happen. Nothing takes that long, except on a very
// busy machine.
const patience = 2 * time.Minute

func within(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	t.Cleanup(cancel)
	return ctx
}

func must[T any](v T, err error) func(testing.TB) T {
	return func(t testing.TB) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

func newFleet(t *testing.T, names ...string) *fleet {
	t.Helper()
	f := &fleet{t: t, key: must(NewKey("server", RoleServer))(t), logged: &serverLog{}}
	for _, name := range names {
		role := RoleNode
		if strings.HasPrefix(name, "admin") {
			role = RoleAdmin
		}
		f.clients = append(f.clients, must(NewKey(name, role))(t))
		f.listed = append(f.listed, f.clients[len(f.clients)-1].Halved())
	}
	f.server = must(Listen(f.config()))(t)
	t.Cleanup(func() {
		f.server.Close()
		if t.Failed() {
			t.Logf("the server logged:\n%s", f.logged)
		}
	})
	return f
}

func (f *fleet) config() ServerConfig {
	return ServerConfig{
		Address: "127.0.0.1:0", Key: &f.key,
		Clients: func() ([]Key, error) { return f.listed, nil },
		Log:     slog.New(slog.NewTextHandler(f.logged, nil)),
	}
}

func (f *fleet) dial(i int) *Client {
	f.t.Helper()
	config := ClientConfig{
		Server: f.server.Address(), Key: &f.clients[i], Public: f.key.Public,
	}
	c := must(Dial(config))(f.t)
	f.t.Cleanup(func() { c.Close() })
	return c
}

// admitAll starts a goroutine that admits every client and answers pings. The channel returns all
// other messages.
func (f *fleet) admitAll() <-chan Incoming {
	other := make(chan Incoming, 1000)
	server := f.server // f.server may change later
	go func() {
		for {
			in, err := server.Receive(f.t.Context())
			if err != nil {
				return
			}
			switch m := in.Message.(type) {
			case *Register:
				welcome := &Welcome{Server: m.Name, Heartbeat_ns: 1e9, Dead_ns: 3e9}
				server.Send(in.Peer, in.Request, welcome)
			case *Ping:
				server.Send(in.Peer, in.Request, &Pong{})
			default:
				other <- in
			}
		}
	}()
	return other
}

func node(name string) Register {
	return Register{
		Name: name, Instance: "i1", Epoch: "e1", Nominal_hz: 2e9, Quantum_cycles: 1,
		CoreSlack_cycles: 100, Machine: "m", Cores: 2,
		Capabilities: []string{CanProbe}, ProbeAddress: "127.0.0.1:4000", Software: "test",
	}
}

// wantRefused waits until the server has refused something for the given reason, and has counted
// and logged the refusal.
func (f *fleet) wantRefused(reason Reason) {
	f.t.Helper()
	for end := time.Now().Add(patience); ; time.Sleep(5 * time.Millisecond) {
		said := f.logged.has("reason=" + string(reason))
		if said && f.server.Refused()[reason] > 0 {
			return
		}
		if time.Now().After(end) {
			f.t.Fatalf("nothing was refused for %q: %v; or it was not logged: %v",
				reason, f.server.Refused(), said)
		}
	}
}

// wantWell checks that a client gets answers.
func (f *fleet) wantWell(c *Client) {
	f.t.Helper()
	if _, err := c.Call(within(f.t), &Ping{Counter_cycles: 1}); err != nil {
		f.t.Errorf("a client that did nothing wrong gets no answer: %v", err)
	}
}

func TestLinkCarriesMessagesBothWays(t *testing.T) {
	t.Parallel()
	f := newFleet(t, "a", "b")
	f.admitAll()
	a, b := f.dial(0), f.dial(1)
	for i, c := range []*Client{a, b} {
		w := must(c.Register(within(t), node(f.clients[i].Name)))(t)
		if w.Server != f.clients[i].Name {
			t.Errorf("welcome is %+v", w)
		}
		f.wantWell(c)
	}
}

func TestServerSendsAndHearsAnswers(t *testing.T) {
	t.Parallel()
	f := newFleet(t, "a")
	a := f.dial(0)
	go a.Register(within(t), node("a"))
	in := must(f.server.Receive(within(t)))(t)
	if in.Key.Name != "a" || in.Key.Role != RoleNode || in.Key.Secret != "" {
		t.Errorf("registered with key %+v", in.Key)
	}
	ask := &Probe{
		Target: Target{
			Peer: "b", PeerEpoch: "e", Address: "127.0.0.1:1", Key: []byte{1}, Nominal_hz: 2e9,
		},
		Manner: Manner{Exchanges: 3, Timeout_ns: 5, Attempts: 2},
		Trains: 1, Gap_ns: 7, Limit_ns: 9,
	}
	if err := f.server.Send(in.Peer, 77, ask); err != nil {
		t.Fatal(err)
	}
	got := must(a.Receive(within(t)))(t)
	if d := cmp.Diff(Message(ask), got.Message); d != "" || got.Request != 77 {
		t.Errorf("request %d arrives as\n%s", got.Request, d)
	}
	answer := &Trains{
		Report: 1, Peer: "b", PeerEpoch: "e", Epoch: "e1",
		Trains: exampleTrains,
	}
	if err := a.Send(within(t), got.Request, answer); err != nil {
		t.Fatal(err)
	}
	in = must(f.server.Receive(within(t)))(t)
	if d := cmp.Diff(Message(answer), in.Message); d != "" || in.Request != 77 {
		t.Errorf("answer %d arrives as\n%s", in.Request, d)
	}
}

func TestLinkWithoutKeysStaysOnThisMachine(t *testing.T) {
	t.Parallel()
	for _, address := range []string{
		"0.0.0.0:0", "*:0", "192.0.2.1:7", "[::]:0", "example.org:5",
	} {
		if _, err := Listen(ServerConfig{Address: address}); !errors.Is(err, ErrNeedsKeys) {
			t.Errorf("listen on %q: %v", address, err)
		}
		if _, err := Dial(ClientConfig{Server: address}); !errors.Is(err, ErrNeedsKeys) {
			t.Errorf("connect to %q: %v", address, err)
		}
	}
	s := must(Listen(ServerConfig{Address: "127.0.0.1:0"}))(t)
	defer s.Close()
	c := must(Dial(ClientConfig{Server: s.Address()}))(t)
	defer c.Close()
	go func() {
		in, err := s.Receive(t.Context())
		if err == nil {
			s.Send(in.Peer, in.Request, &Answer{Result: json.RawMessage(`1`)})
		}
	}()
	if err := c.Ask(within(t), "nodes", nil, nil); err != nil {
		t.Error(err) // without keys, any program on this machine may ask
	}
}

func TestServerLetsOnlyListedKeysIn(t *testing.T) {
	t.Parallel()
	f := newFleet(t, "a")
	f.admitAll()
	a := f.dial(0)
	must(a.Register(within(t), node("a")))(t)

	stranger := must(NewKey("stranger", RoleNode))(t)
	other := must(NewKey("other", RoleServer))(t)
	address := f.server.Address()
	for name, c := range map[string]ClientConfig{
		"key that is not listed": {Server: address, Key: &stranger, Public: f.key.Public},
		"key of another server":  {Server: address, Key: &f.clients[0], Public: other.Public},
		"no key":                 {Server: address},
	} {
		l := must(Dial(c))(t)
		defer l.Close() // on a busy machine, the server sees the client's handshake only later
		ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
		if _, err := l.Register(ctx, node("b")); err == nil {
			t.Errorf("%s: registered", name)
		}
		cancel()
	}
	f.wantRefused(ReasonKey)
	f.wantRefused(ReasonHandshake)
	f.wantWell(a)
}

// A client connects as soon as the server accepts its key. ZeroMQ itself would never retry a
// connection whose key was refused.
func TestClientComesInOnceItsKeyIsListed(t *testing.T) {
	t.Parallel()
	var listed atomic.Pointer[[]Key]
	listed.Store(new([]Key))
	key, own := must(NewKey("server", RoleServer))(t), must(NewKey("a", RoleNode))(t)
	s := must(Listen(ServerConfig{
		Address: "127.0.0.1:0", Key: &key,
		Clients: func() ([]Key, error) { return *listed.Load(), nil },
	}))(t)
	defer s.Close()
	f := &fleet{t: t, server: s, key: key, clients: []Key{own}}
	f.admitAll()
	c := f.dial(0)
	// The client learns the reason long before its context ends.
	_, err := c.Register(within(t), node("a"))
	if !errors.Is(err, ErrKey) || !errors.Is(err, ErrUnreachable) ||
		!strings.Contains(err.Error(), `key "a"`) {
		t.Fatalf("before: %v", err)
	}
	listed.Store(&[]Key{own.Halved()})
	must(c.Register(within(t), node("a")))(t)
}

// A program other than the server may listen at the server's address and refuse everybody. A client
// without a key survives that.
func TestClientWithoutAKeyIsRefusedByAStranger(t *testing.T) {
	t.Parallel()
	ctx := must(zmq4.NewContext())(t)
	defer ctx.Term()
	refuses := must(ctx.NewSocket(zmq4.REP))(t)
	stranger := must(ctx.NewSocket(zmq4.ROUTER))(t)
	if err := errors.Join(
		refuses.SetRcvtimeo(50*time.Millisecond), refuses.Bind("inproc://zeromq.zap.01"),
		stranger.SetLinger(0), stranger.SetZapDomain("stranger"),
		stranger.Bind("tcp://127.0.0.1:*"),
	); err != nil {
		t.Fatal(err)
	}
	defer stranger.Close()
	// This goroutine refuses every handshake while the client tries to connect. If nobody answered
	// ZeroMQ's question about the key, ZeroMQ would let the client in.
	done, asked := make(chan struct{}), make(chan int, 1)
	go func() {
		defer refuses.Close()
		refused := 0
		for {
			m, err := refuses.RecvMessage(0)
			if err == nil {
				_, err = refuses.SendMessage("1.0", m[1], "400", "nobody", "", "")
			}
			if err == nil {
				refused++
			}
			select {
			case <-done:
				asked <- refused
				return
			default:
			}
		}
	}()
	address := strings.TrimPrefix(must(stranger.GetLastEndpoint())(t), "tcp://")
	l := must(Dial(ClientConfig{Server: address}))(t)
	defer l.Close()
	short, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	if _, err := l.Call(short, &Ping{}); !errors.Is(err, ErrUnreachable) {
		t.Error(err)
	}
	close(done)
	if <-asked == 0 {
		t.Error("the stranger was not asked")
	}
}

func TestServerTakesQuestionsFromAdminsOnly(t *testing.T) {
	t.Parallel()
	f := newFleet(t, "a", "admin")
	others := f.admitAll()
	var refused *RefusedError
	err := f.dial(0).Ask(within(t), "nodes", nil, nil)
	if !errors.As(err, &refused) || refused.Code != NotAllowed || !errors.Is(err, ErrRefused) {
		t.Errorf("a node's question: %v", err)
	}
	read := &ReadFile{Run: "r", Path: "run.yaml", Bytes: 1}
	if _, err := f.dial(0).Call(within(t), read); !errors.As(err, &refused) ||
		refused.Code != NotAllowed {
		t.Errorf("a node reads a run: %v", err)
	}
	go func() {
		in := <-others
		f.server.Send(in.Peer, in.Request, &Answer{Result: in.Message.(*Ask).Argument})
		in = <-others
		f.server.Send(in.Peer, in.Request, &Pong{})
		in = <-others
		f.server.Send(in.Peer, in.Request, &Chunk{Path: in.Message.(*ReadFile).Path,
			Size: 9, Data: []byte("x")})
	}()
	admin := f.dial(1)
	var answer map[string]int
	err = admin.Ask(within(t), "nodes", map[string]int{"x": 1}, &answer)
	if err != nil || answer["x"] != 1 {
		t.Errorf("answer is %v, %v", answer, err)
	}
	err = admin.Ask(within(t), "nodes", nil, &answer)
	if err == nil || !strings.Contains(err.Error(), "answers with") {
		t.Errorf("a Pong is taken for an answer: %v", err)
	}
	if m, err := admin.Call(within(t), read); err != nil || string(m.(*Chunk).Data) != "x" {
		t.Errorf("an admin reads %+v, %v", m, err)
	}
}

// Ends with neighbouring versions work together, whichever end is newer. If versions are further
// apart, each end refuses the other and names both versions.
func TestVersionsSideBySide(t *testing.T) {
	t.Parallel()
	minor := func(n uint8) Version { return Version{Current.Major, n} }
	for _, test := range []struct {
		server, client Version
		works          bool
	}{
		{minor(1), minor(1), true}, {minor(1), minor(2), true}, {minor(2), minor(1), true},
		{minor(1), minor(3), false}, {minor(3), minor(1), false},
		{minor(1), Version{Current.Major + 1, 1}, false},
	} {
		t.Run(fmt.Sprintf("server %s, client %s", test.server, test.client), func(t *testing.T) {
			f := newFleet(t, "a")
			f.server.Close()
			config := f.config()
			config.speaks = test.server
			f.server = must(Listen(config))(t)
			f.admitAll()
			c := must(Dial(ClientConfig{
				Server: f.server.Address(), Key: &f.clients[0], Public: f.key.Public,
				speaks: test.client,
			}))(t)
			defer c.Close()
			_, err := c.Register(within(t), node("a"))
			if test.works {
				if err != nil {
					t.Fatal(err)
				}
				f.wantWell(c)
				return
			}
			var refused *RefusedError
			if !errors.As(err, &refused) || refused.Code != WrongVersion {
				t.Fatalf("too far apart: %v", err)
			}
			for _, name := range []string{test.server.String(), test.client.String()} {
				if !strings.Contains(err.Error(), name) {
					t.Errorf("%q does not name version %s", err, name)
				}
			}
			f.wantRefused(ReasonVersion)
		})
	}
}

func TestClientNeverHangs(t *testing.T) {
	t.Parallel()
	silent := must(net.Listen("tcp", "127.0.0.1:0"))(t) // accepts connections and sends nothing
	defer silent.Close()
	nobody := must(net.Listen("tcp", "127.0.0.1:0"))(t)
	nobody.Close()
	for name, address := range map[string]string{
		"silent": silent.Addr().String(), "nobody": nobody.Addr().String(),
	} {
		c := must(Dial(ClientConfig{Server: address}))(t)
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		_, err := c.Call(ctx, &Ping{})
		if !errors.Is(err, ErrUnreachable) {
			t.Errorf("%s: %v", name, err)
		}
		if _, err := c.Call(ctx, &Ping{}); !errors.Is(err, ErrUnreachable) {
			t.Errorf("%s: after the time to wait: %v", name, err)
		}
		cancel()
		c.Close()
		if _, err := c.Receive(t.Context()); !errors.Is(err, ErrClosed) {
			t.Errorf("%s: receive on a closed client: %v", name, err)
		}
		if err := c.Send(t.Context(), 0, &Ping{}); !errors.Is(err, ErrClosed) {
			t.Errorf("%s: send on a closed client: %v", name, err)
		}
	}
}

func TestClientFindsARestartedServer(t *testing.T) {
	t.Parallel()
	f := newFleet(t, "a")
	f.admitAll()
	a := f.dial(0)
	must(a.Register(within(t), node("a")))(t)
	address := f.server.Address()
	f.server.Close()
	if _, err := f.server.Receive(t.Context()); !errors.Is(err, ErrClosed) {
		t.Errorf("receive on a closed server: %v", err)
	}
	config := f.config()
	config.Address = address
	f.server = must(Listen(config))(t)
	t.Cleanup(func() { f.server.Close() })
	f.admitAll()
	// The restart may have lost messages, so the client tries more than once. Then the new server
	// tells the client to register, and after that the client gets answers.
	var refused *RefusedError
	for limit := within(t); ; {
		ctx, cancel := context.WithTimeout(limit, time.Second)
		_, err := a.Call(ctx, &Ping{})
		cancel()
		if errors.As(err, &refused) {
			break
		}
		if limit.Err() != nil {
			t.Fatal(err)
		}
	}
	if refused.Code != NotRegistered {
		t.Errorf("a ping before the registration: %v", refused)
	}
	must(a.Register(within(t), node("a")))(t)
	f.wantWell(a)
}

func TestServerTellsOfPeersThatAreGone(t *testing.T) {
	t.Parallel()
	f := newFleet(t, "a")
	if err := f.server.Send(Peer("\x00abcd"), 5, &Pong{}); err != nil {
		t.Fatal(err)
	}
	in := must(f.server.Receive(within(t)))(t)
	if in.Message != nil || in.Request != 5 || in.Peer != "\x00abcd" {
		t.Errorf("told of %+v", in)
	}
}
