package control

import (
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

// revocations returns a fleet whose list of keys can change, and what its server received apart
// from registrations and pings.
func revocations(t *testing.T, names ...string) (
	f *fleet, list *atomic.Pointer[[]Key], received <-chan Incoming,
) {
	t.Helper()
	f = &fleet{t: t, key: must(NewKey("server", RoleServer))(t), logged: &logged{}}
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
	return f, list, f.welcomes()
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

// A key that leaves the list ends its own connection, even one that is silent, and no other.
func TestAKeyThatIsTakenOffTheListEndsItsConnections(t *testing.T) {
	t.Parallel()
	f, list, received := revocations(t, "a", "b")
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
	if _, err := a.Call(within(t), &Ping{}); !errors.Is(err, ErrKey) {
		t.Errorf("ping of a revoked key: %v", err)
	}
	f.wantWell(b) // its connection is still the one on which it registered
	list.Store(&both)
	must(a.Register(within(t), node("a")))(t)
}

// A client without a connection at this moment may still hold something that was given to it.
func TestAKeyWithoutAConnectionIsRevoked(t *testing.T) {
	t.Parallel()
	f, list, received := revocations(t, "a")
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
		{nil, nil, 0},                        // perhaps it is being replaced
		{[]Key{a}, nil, 0},                   // it was
		{nil, nil, 0},                        //
		{nil, emfile, 0},                     // says nothing about a
		{nil, errors.New("another file"), 1}, // says something about other keys only
		{nil, nil, 1},                        // revoked only once
		{[]Key{a}, nil, 1},                   //
		{nil, nil, 1},                        //
		{nil, nil, 2},                        // revoked again
	} {
		listed, err = step.listed, step.err
		now = now.Add(listEvery)
		z.look(now)
		z.look(now.Add(listEvery / 2)) // too early to look
		if revoked != step.want {
			t.Errorf("step %d: revoked %d times, want %d", i, revoked, step.want)
		}
	}
	// A revocation that finds no room is repeated with the next look.
	listed, busy = []Key{a}, true
	for i := range 4 {
		now = now.Add(listEvery)
		z.look(now)
		listed, busy = nil, i < 2
	}
	if revoked != 4 {
		t.Errorf("revoked %d times, want twice more", revoked)
	}
}

// A message that is on its way when its key is revoked does not come through.
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
		s.judge(newGate(time.Now), peer, frames, map[string]string{"User-Id": a.Public})
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

// A server's key is replaced while its clients run. For a while the clients know both keys, and
// find the server with either. They read the key file again, so that none has to be restarted.
func TestClientsFindAServerThatIsGivenAnotherKey(t *testing.T) {
	t.Parallel()
	f := newFleet(t, "a")
	f.welcomes()
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
	put(next, f.key) // the next key first, so that the present one is tried second
	address := f.server.Address()
	listen := func(key Key) {
		t.Helper()
		f.server.Close()
		f.key = key
		config := f.config()
		config.Address = address
		var err error
		for range 50 { // the port may need a moment
			if f.server, err = Listen(config); err == nil {
				break
			}
			time.Sleep(20 * time.Millisecond)
		}
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { f.server.Close() })
		f.welcomes()
	}
	before := f.key
	listen(next)
	registers()
	listen(before) // the replacement came too early and is undone
	registers()
	// A file that cannot be read changes nothing.
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
