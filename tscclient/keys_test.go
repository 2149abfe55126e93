package tscclient

import (
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cloudprofiler/cloudprofiler/control"
	"github.com/cloudprofiler/cloudprofiler/minrtt"
)

func probeSecrets(secrets ...minrtt.Secret) *control.ProbeSecrets {
	m := &control.ProbeSecrets{}
	for i := range secrets {
		m.Secrets = append(m.Secrets,
			control.ProbeSecret{Number: secrets[i].Number, Bytes: secrets[i].Bytes[:]})
	}
	return m
}

// mustAnswer fails unless the peer answers a train. The timeouts in these tests are short, so on a
// busy machine several trains may end without an answer.
func mustAnswer(t *testing.T, b *testNode, p Peer) {
	t.Helper()
	for end := time.Now().Add(maxWait); ; {
		_, err := b.Train(t.Context(), p)
		if err == nil {
			return
		}
		if !errors.Is(err, minrtt.ErrNoAnswer) || time.Now().After(end) {
			t.Fatal(err)
		}
	}
}

// A server tells a node which secrets to accept. If a new list lacks a secret, this secret soon
// becomes invalid. The secret from which Key derives keys stays valid.
func TestAServerSaysWhichKeysAreTaken(t *testing.T) {
	s := listen(t, "127.0.0.1:0", "server 1")
	defer s.Close()
	a := startNode(t, "a", nil)
	b := startNode(t, "b", func(c *Config) {
		c.Manner.Timeout, c.Manner.Attempts = 200*time.Millisecond, 2
	})
	connect(t, a, s.Address(), nil)
	s.welcome()
	first, second := minrtt.NewSecret(), minrtt.NewSecret()
	under := func(key minrtt.Key) Peer {
		p := a.peer()
		p.Key = key
		return p
	}
	if _, err := b.Train(t.Context(), under(first.Key(7))); !errors.Is(err, minrtt.ErrNoAnswer) {
		t.Errorf("before the server named its secret: %v", err)
	}
	say := func(request uint64, secrets ...minrtt.Secret) {
		s.order(request, probeSecrets(secrets...))
		if _, answers := expectMessage[*control.Done](s); answers != request {
			t.Fatalf("answers %d, not %d", answers, request)
		}
	}
	say(1, first)
	mustAnswer(t, b, under(first.Key(7)))
	mustAnswer(t, b, a.peer())
	say(2, second, first)
	mustAnswer(t, b, under(first.Key(7)))
	mustAnswer(t, b, under(second.Key(7)))
	mustAnswer(t, b, a.peer())
	say(3, second)
	waitFor(t, func() bool {
		_, err := b.Train(t.Context(), under(first.Key(7)))
		return errors.Is(err, minrtt.ErrNoAnswer)
	})
	mustAnswer(t, b, under(second.Key(7)))
	mustAnswer(t, b, a.peer())
	// Each call of Key returns a key for one prober only.
	if key := a.Key(); key == a.Key() {
		t.Error("two probers get the same key")
	}
}

// A command is a program that asks a node questions. A node gives probe keys to the commands whose
// own keys are in its list. If a command's own key is taken off the list, the probe keys of all
// commands become invalid, because that command may know the probe keys of others.
func TestKeysOfCommandsEndWithACommandersKey(t *testing.T) {
	a := startNode(t, "a", nil)
	b := startNode(t, "b", func(c *Config) {
		c.Manner.Timeout, c.Manner.Attempts = 200*time.Millisecond, 2
	})
	key, err := control.NewKey("a", control.RoleServer)
	if err != nil {
		t.Fatal(err)
	}
	admin, err := control.NewKey("admin", control.RoleAdmin)
	if err != nil {
		t.Fatal(err)
	}
	var listed atomic.Pointer[[]control.Key]
	listed.Store(&[]control.Key{admin.Halved()})
	commands, err := ServeCommands(a.Client, control.ServerConfig{
		Address: "127.0.0.1:0", Key: &key,
		Clients: func() ([]control.Key, error) { return *listed.Load(), nil },
	}, "test")
	if err != nil {
		t.Fatal(err)
	}
	defer commands.Close()
	told := a.peer()
	mustAnswer(t, b, told)
	listed.Store(new([]control.Key))
	waitFor(t, func() bool { // the command's key ends
		_, err := b.Train(t.Context(), told)
		return errors.Is(err, minrtt.ErrNoAnswer)
	})
	mustAnswer(t, b, a.peer())
}
