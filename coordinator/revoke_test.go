package coordinator

import (
	"context"
	"errors"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cloudprofiler/cloudprofiler/asm"
	"github.com/cloudprofiler/cloudprofiler/control"
	"github.com/cloudprofiler/cloudprofiler/minrtt"
	"github.com/cloudprofiler/cloudprofiler/tscclient"
	"github.com/cloudprofiler/cloudprofiler/tscratio"
)

// keyedServer is a server with keys and several clients, connected by real sockets.
type keyedServer struct {
	list       string // directory of the accepted keys
	clients    map[string]*tscclient.Client
	links      map[string]*tscclient.Link
	lastTarget map[string]*atomic.Pointer[tscclient.Peer] // by prober: whom it probed last
}

func newKeyed(t *testing.T, names ...string) *keyedServer {
	t.Helper()
	k := &keyedServer{
		list: t.TempDir(), clients: map[string]*tscclient.Client{},
		links:      map[string]*tscclient.Link{},
		lastTarget: map[string]*atomic.Pointer[tscclient.Peer]{},
	}
	store, err := OpenStore(t.TempDir(), t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { store.Close() })
	own, err := control.NewKey("server", control.RoleServer)
	if err != nil {
		t.Fatal(err)
	}
	link, err := control.Listen(control.ServerConfig{
		Address: "127.0.0.1:0", Key: &own,
		Clients: func() ([]control.Key, error) { return control.ReadClientKeys(k.list) },
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { link.Close() })
	config := DefaultConfig()
	config.SweepEvery, config.Settle, config.Sweep.Quiet.Over = time.Second, 0, 0
	s, err := NewServer(link, config, store, nil)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- s.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	for _, name := range names {
		k.join(t, name, link.Address(), own)
	}
	return k
}

func (k *keyedServer) file(name string) string { return filepath.Join(k.list, name+".public") }

func (k *keyedServer) join(t *testing.T, name, server string, public control.Key) {
	t.Helper()
	key, err := control.NewKey(name, control.RoleNode)
	if err == nil {
		err = key.Halved().Write(k.file(name))
	}
	if err != nil {
		t.Fatal(err)
	}
	config := tscclient.DefaultConfig()
	config.Node = tscratio.Node{
		Name: name, Epoch: "e", Nominal_hz: 2.6e9, Quantum_cycles: 30, CoreSlack_cycles: 2000,
	}
	config.Clock = minrtt.Clock{Counter: asm.Counter}
	config.Listen = netip.MustParseAddrPort("127.0.0.1:0")
	config.Secret = minrtt.NewSecret()
	client, err := tscclient.Start(config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { client.Close() })
	last := &atomic.Pointer[tscclient.Peer]{} // trains read no map, because others join meanwhile
	k.clients[name], k.lastTarget[name] = client, last
	client.Observe(func(o tscclient.Outcome) {
		if o.Err == nil {
			last.Store(&o.Peer)
		}
	})
	link, err := tscclient.Connect(client, tscclient.LinkConfig{
		Server:   control.ClientConfig{Server: server, Key: &key, Public: public.Public},
		Register: control.Register{Machine: "m", Cores: 2, Software: "test"},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { link.Close() })
	k.links[name] = link
}

// waitFor waits until a condition holds. Its limit is long enough for a busy machine.
func waitFor(t *testing.T, what string, holds func() bool) {
	t.Helper()
	for end := time.Now().Add(3 * time.Minute); !holds(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("%s: not within three minutes", what)
		}
	}
}

// If a client's public key is removed from the directory, the server ends the client's connection.
// No node answers probes under the keys that the client still has. The other clients continue with
// new keys.
func TestTakingAKeyAwayEndsWhatItsOwnerHas(t *testing.T) {
	k := newKeyed(t, "a", "b", "c")
	waitFor(t, "trains", func() bool {
		for _, given := range k.lastTarget {
			if given.Load() == nil {
				return false
			}
		}
		return true
	})
	waitFor(t, "a train of b with c",
		func() bool { return k.lastTarget["b"].Load().Node.Name == "c" })
	held, others := *k.lastTarget["a"].Load(), *k.lastTarget["b"].Load()
	probe := func() error {
		_, err := k.clients["a"].Train(t.Context(), held)
		return err
	}
	if err := probe(); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(k.file("a")); err != nil {
		t.Fatal(err)
	}
	waitFor(t, "the end of the connection", func() bool {
		s := k.links["a"].State()
		return !s.Registered && strings.Contains(s.Problem, "does not let this key in")
	})
	waitFor(t, "the end of its keys", func() bool { return errors.Is(probe(), minrtt.ErrNoAnswer) })
	waitFor(t, "trains of others under new keys", func() bool {
		now := k.lastTarget["b"].Load()
		return now.Node.Name == "c" && now.Key != others.Key
	})
	if s := k.links["b"].State(); !s.Registered || s.Registrations != 1 {
		t.Errorf("another node: %+v", s)
	}
}
