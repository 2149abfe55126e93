package control

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

// revocationFleet returns a fleet and its list of keys, which the test can change. The channel
// delivers what the fleet's server receives, except registrations and pings.
func revocationFleet(t *testing.T, names ...string) (
	f *fleet, list *atomic.Pointer[[]Key], received <-chan Incoming,
) {
	t.Helper()
	f = &fleet{t: t, key: must(NewKey("server", RoleServer))(t), logged: &serverLog{}}
	for _, name := range names {
		f.clients = append(f.clients, must(NewKey(name, RoleNode))(t))
		f.listed = append(f.listed, f.clients[len(f.clients)-1].Halved())
	}
	list = &atomic.Pointer[[]Key]{}
	list.Store(&f.listed)
	config := f.config()
	config.Clients = func() ([]Key, error) { return *list.Load(), nil }
	config.Log = slog.New(slog.NewTextHandler(f.logged, nil))
	f.server = must(Listen(config))(t)
	t.Cleanup(func() { f.server.Close() })
	return f, list, f.admitAll()
}

func (f *fleet) wantRevoked(received <-chan Incoming, key Key) (peer Peer) {
	f.t.Helper()
	for {
		select {
		case in := <-received:
			if !in.Revoked || in.Key != key.Halved() || in.Message != nil {
				f.t.Fatalf("received %+v", in)
			}
			if in.Peer == "" {
				return peer
			}
			peer = in.Peer
		case <-within(f.t).Done():
			f.t.Fatal("nobody was told that a key was taken off the list")
		}
	}
}

// A command that asks something and a node that says farewell may end their connections. The server
// counts and logs an ended connection only if its node vanished.
func TestOnlyNodesThatVanishAreCounted(t *testing.T) {
	t.Parallel()
	f := newFleet(t, "admin", "a", "b")
	others := f.admitAll()
	admin, a, b := f.dial(0), f.dial(1), f.dial(2)
	must(a.Register(within(t), node("a")))(t)
	must(b.Register(within(t), node("b")))(t)
	if err := admin.Send(within(t), 0, &Ask{What: "nodes"}); err != nil {
		t.Fatal(err)
	}
	<-others
	if err := a.Send(within(t), 0, &Leave{Why: "update"}); err != nil {
		t.Fatal(err)
	}
	<-others
	for n, c := range []*Client{admin, a, b} {
		c.Close()
		f.waitForConnections(2 - n)
		want := uint64(0)
		if c == b {
			f.wantRefused(ReasonDisconnected)
			want = 1
		}
		if got := f.server.Refused()[ReasonDisconnected]; got != want {
			t.Errorf("after %s ended its connection, %d are counted, want %d",
				f.clients[n].Name, got, want)
		}
	}
}

// waitForConnections waits until the server has a given number of connections left, and has dealt
// with the end of the others.
func (f *fleet) waitForConnections(want int) {
	f.t.Helper()
	for end := time.Now().Add(patience); ; time.Sleep(5 * time.Millisecond) {
		f.server.mu.Lock()
		got := len(f.server.connections)
		f.server.mu.Unlock()
		if got == want {
			return
		}
		if time.Now().After(end) {
			f.t.Fatalf("the server has %d connections, want %d", got, want)
		}
	}
}

// If a key leaves the list, the key's connections end, even if they are silent. Connections of
// other keys stay.
func TestAKeyThatIsTakenOffTheListEndsItsConnections(t *testing.T) {
	t.Parallel()
	f, list, received := revocationFleet(t, "a", "b")
	a, b := f.dial(0), f.dial(1)
	must(a.Register(within(t), node("a")))(t)
	must(b.Register(within(t), node("b")))(t)
	both := f.listed
	rest := both[1:]
	list.Store(&rest)
	if peer := f.wantRevoked(received, f.clients[0]); peer == "" {
		t.Error("nobody was told whose connection it was")
	}
	f.wantRefused(ReasonDisconnected)
	// The client may learn late that its connection has ended. Until then, each of its Calls ends
	// without an answer: its time runs out, or it returns ErrLost.
	err := error(context.DeadlineExceeded)
	late := func() bool {
		return errors.Is(err, context.DeadlineExceeded) || errors.Is(err, ErrLost)
	}
	for tries := 0; tries < 10 && late(); tries++ {
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		_, err = a.Call(ctx, &Ping{})
		cancel()
	}
	if !errors.Is(err, ErrKey) {
		t.Errorf("ping of a revoked key: %v", err)
	}
	f.wantWell(b) // b still has the connection on which it registered
	list.Store(&both)
	must(a.Register(within(t), node("a")))(t)
}

// A revocation is reported even if the key has no connection at this moment: its owner may still
// have probe keys.
func TestAKeyWithoutAConnectionIsRevoked(t *testing.T) {
	t.Parallel()
	f, list, received := revocationFleet(t, "a")
	list.Store(new([]Key))
	if peer := f.wantRevoked(received, f.clients[0]); peer != "" {
		t.Errorf("of peer %s", peer)
	}
}

func TestAKeyIsRevokedWhenTwoLooksDoNotFindIt(t *testing.T) {
	a := must(NewKey("a", RoleNode))(t).Halved()
	full := &fs.PathError{Op: "open", Path: "x", Err: syscall.EMFILE}
	emfile := fmt.Errorf("read client keys: %w", full)
	now := time.Unix(1000, 0)
	var listed []Key
	var err error
	revoked, busy := 0, false
	z := &zap{
		read:    func() ([]Key, error) { return listed, err },
		revoke:  func(k Key) bool { revoked++; return !busy && k == a },
		refused: newRefusals(nil), keys: map[string]Key{}, missing: map[string]bool{},
	}
	for i, step := range []struct {
		listed []Key
		err    error
		want   int
	}{
		{[]Key{a}, nil, 0},
		{nil, nil, 0},                        // perhaps somebody is replacing the key's file
		{[]Key{a}, nil, 0},                   // the file was replaced
		{nil, nil, 0},                        // missing at one check
		{nil, emfile, 0},                     // a temporary error: the key may still exist
		{nil, errors.New("another file"), 1}, // a lasting error, which concerns other keys only
		{nil, nil, 1},                        // revoked only once
		{[]Key{a}, nil, 1},                   // listed again
		{nil, nil, 1},                        // missing at one check
		{nil, nil, 2},                        // revoked again
	} {
		listed, err = step.listed, step.err
		now = now.Add(listEvery)
		z.revokeMissing(now)
		z.revokeMissing(now.Add(listEvery / 2)) // this call does nothing, because it is too early
		if revoked != step.want {
			t.Errorf("step %d: revoked %d times, want %d", i, revoked, step.want)
		}
	}
	// If revoke cannot queue a revocation, zap tries again when it next looks at the list.
	listed, busy = []Key{a}, true
	for i := range 4 {
		now = now.Add(listEvery)
		z.revokeMissing(now)
		listed, busy = nil, i < 2
	}
	if revoked != 4 {
		t.Errorf("revoked %d times, want twice more", revoked)
	}
}

// If a key is revoked while a message is on its way, the server refuses the message.
func TestMessagesOfARevokedKeyAreRefused(t *testing.T) {
	s := &Server{
		speaks: Current, refused: newRefusals(nil), incoming: make(chan Incoming, 1),
		registered: map[Peer]bool{}, connections: map[Peer]connection{},
		zap: &zap{keys: map[string]Key{}},
	}
	peer := Peer("\x00abcd")
	s.registered[peer] = true
	a := must(NewKey("a", RoleNode))(t)
	frames := must(Encode(&Ping{}, 1))(t)
	for _, listed := range []bool{true, false} {
		delete(s.zap.keys, a.Public)
		if listed {
			s.zap.keys[a.Public] = a.Halved()
		}
		s.judgeMessage(newGate(time.Now), peer, frames, map[string]string{"User-Id": a.Public})
		if n := len(s.incoming); n == 1 != listed {
			t.Errorf("listed %v: %d messages came in", listed, n)
		}
		for len(s.incoming) > 0 {
			<-s.incoming
		}
	}
	if s.refused.all()[ReasonKey] != 1 || s.registered[peer] {
		t.Errorf("refused: %v; it counts as registered: %v", s.refused.all(), s.registered[peer])
	}
}

// A server's key is replaced while its clients run. For a while the clients know the old and the
// new key, and accept a server with either key. They read the key file again for each connection,
// so clients need not be restarted.
func TestClientsFindAServerThatIsGivenAnotherKey(t *testing.T) {
	t.Parallel()
	f := newFleet(t, "a")
	f.admitAll()
	next := must(NewKey("server", RoleServer))(t)
	path := filepath.Join(t.TempDir(), "server.public")
	put := func(keys ...Key) {
		t.Helper()
		var text []byte
		for _, k := range keys {
			text = append(text, k.Halved().Text()...)
		}
		if err := os.WriteFile(path, text, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	put(f.key)
	c := must(Dial(ClientConfig{
		Server: f.server.Address(), Key: &f.clients[0],
		Publics: func() ([]string, error) { return ReadServerKeys(path) },
	}))(t)
	defer c.Close()
	registers := func() {
		t.Helper()
		if _, err := c.Register(within(t), node("a")); err != nil {
			t.Fatal(err)
		}
	}
	registers()
	put(next, f.key) // the next key comes first in the file, so clients try the present key second
	address := f.server.Address()
	listen := func(key Key) {
		t.Helper()
		f.server.Close()
		f.key = key
		config := f.config()
		config.Address = address
		var err error
		for range 50 { // the port may be free only after a moment
			if f.server, err = Listen(config); err == nil {
				break
			}
			time.Sleep(20 * time.Millisecond)
		}
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { f.server.Close() })
		f.admitAll()
	}
	before := f.key
	listen(next)
	registers()
	listen(before) // somebody changed the key too early, and undoes that
	registers()
	// If the file cannot be read, the client keeps the keys that it knows.
	if err := os.WriteFile(path, []byte("half of a k"), 0o644); err != nil {
		t.Fatal(err)
	}
	listen(next)
	registers()
}

func TestSeveralKeysInAFile(t *testing.T) {
	a := must(NewKey("server", RoleServer))(t).Halved()
	b := must(NewKey("server", RoleServer))(t).Halved()
	nodes := must(NewKey("n", RoleNode))(t).Halved()
	path := filepath.Join(t.TempDir(), "keys")
	put := func(text []byte) {
		if err := os.WriteFile(path, text, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	put(append(a.Text(), b.Text()...))
	public, err := ReadServerKeys(path)
	if err != nil || !slices.Equal(public, []string{a.Public, b.Public}) {
		t.Errorf("read %v, %v", public, err)
	}
	_, err = ReadKey(path)
	if !errors.Is(err, ErrKeyFile) || !strings.Contains(err.Error(), "2 keys") {
		t.Errorf("where one is wanted: %v", err)
	}
	put(append(a.Text(), nodes.Text()...))
	_, err = ReadServerKeys(path)
	if !errors.Is(err, ErrKeyRole) || !strings.Contains(err.Error(), `node "n"`) {
		t.Errorf("with a node's: %v", err)
	}
	put(append(a.Text(), "name: x\n"...))
	if _, err := ReadServerKeys(path); !errors.Is(err, ErrKeyFile) {
		t.Errorf("with half a key: %v", err)
	}
}
