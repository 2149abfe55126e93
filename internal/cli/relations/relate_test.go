package relations

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cloudprofiler/cloudprofiler/asm"
	"github.com/cloudprofiler/cloudprofiler/control"
	"github.com/cloudprofiler/cloudprofiler/internal/command"
	"github.com/cloudprofiler/cloudprofiler/minrtt"
	"github.com/cloudprofiler/cloudprofiler/tscclient"
	"github.com/cloudprofiler/cloudprofiler/tscratio"
)

// aNode is a tsc-client in this process. Its counter is this machine's counter plus an offset.
type aNode struct {
	client   *tscclient.Client
	commands *tscclient.Commands
	offset   atomic.Uint64
	epoch    atomic.Value // contains a string
}

func startANode(t *testing.T, name string, server control.ServerConfig) *aNode {
	t.Helper()
	n := &aNode{}
	n.offset.Store(uint64(name[0]) << 50)
	n.epoch.Store("e1")
	config := tscclient.DefaultConfig()
	config.Node = tscratio.Node{Name: name, Epoch: "e1", Nominal_hz: 2.6e9, Quantum_cycles: 30,
		CoreSlack_cycles: 2000}
	config.Clock = minrtt.Clock{Counter: func() uint64 { return asm.Counter() + n.offset.Load() }}
	config.Epoch = func() (string, error) { return n.epoch.Load().(string), nil }
	config.Secret = minrtt.NewSecret()
	var err error
	if n.client, err = tscclient.Start(config); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { n.client.Close() })
	if server.Address == "" {
		server.Address = "127.0.0.1:0"
	}
	if n.commands, err = tscclient.ServeCommands(n.client, server, "test"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(sync.OnceFunc(func() { n.commands.Close() }))
	return n
}

func TestRelateTwoClients(t *testing.T) {
	a, b := startANode(t, "a", control.ServerConfig{}), startANode(t, "b", control.ServerConfig{})
	file := filepath.Join(t.TempDir(), "a--b.rel")
	code, stdout, stderr := cprof("relate", a.commands.Address(), b.commands.Address(), "--seconds",
		"0.3", "--trains", "12", "--json", "-o", file)
	if code != command.Answered {
		t.Fatalf("exit code %d: %s", code, stderr)
	}
	var j relateJSON
	if err := json.Unmarshal([]byte(stdout), &j); err != nil {
		t.Fatal(err)
	}
	if j.A.Name != "a" || j.B.Name != "b" || j.Trains != 12 || j.TrainsByA != 6 ||
		j.Verdict != "consistent" || j.Bound_us == nil || j.File != file ||
		j.KernelStamps != 0 || len(j.WhyUser) == 0 {
		t.Errorf("%s", stdout)
	}
	pair, err := readPairFile(file)
	if err != nil {
		t.Fatal(err)
	}
	r, err := pair.Relate(tscratio.SideA, pair.Declared.Wander)
	if err != nil {
		t.Fatal(err)
	}
	l := r.Knots()
	for i := range 100 {
		y := l[0].Reading + (l[len(l)-1].Reading-l[0].Reading)/100*uint64(i)
		truth := y - b.offset.Load() + a.offset.Load()
		if at, err := r.Translate(y); err != nil || !at.Contains(truth) {
			t.Fatalf("%d is in %v, in truth %d: %v", y, at, truth, err)
		}
	}
	if code, _, stderr := cprof("relate", a.commands.Address(), b.commands.Address(), "-o",
		file); code != command.Usage || !strings.Contains(stderr, "exists already") {
		t.Errorf("exit code %d: %s", code, stderr)
	}
	code, stdout, _ = cprof("relate", b.commands.Address(), a.commands.Address(), "--seconds",
		"0.2", "--wander", "2ppm")
	for _, want := range []string{"node A          b", "within 2 ppm", "consistent",
		"all around system calls", "not by kernel", "-o FILE.rel"} {
		if !strings.Contains(stdout, want) {
			t.Errorf("exit code %d, no %q in:\n%s", code, want, stdout)
		}
	}
}

// If a node fails during a measurement, relate soon names the node. It still uses what was measured
// before.
func TestRelateNamesWhoFails(t *testing.T) {
	during := func(a, b *aNode, what func()) (int, string, string) {
		go func() { // fail once a relation is possible, long before the measurement ends
			for a.client.Stats().Trains+b.client.Stats().Trains < 6 && t.Context().Err() == nil {
				time.Sleep(time.Millisecond)
			}
			what()
		}()
		return cprof("relate", "--seconds", "30", "--trains", "300", a.commands.Address(),
			b.commands.Address())
	}
	for name, tc := range map[string]struct {
		what func(a, b *aNode)
		code int
		want []string
	}{
		"commands end": {func(_, b *aNode) { b.commands.Close() }, command.Partial,
			[]string{`node "b" at`, "no longer answers"}},
		"answerer ends": {func(_, b *aNode) { b.client.Close() }, command.Partial,
			[]string{`node "`, "ended early"}},
		"counter reset": {func(_, b *aNode) { b.offset.Store(1 << 40) }, command.Failed,
			[]string{`node "b" at`, "refused", "replays old answers"}},
		"new epoch": {func(a, _ *aNode) { a.epoch.Store("e2") }, command.Failed,
			[]string{`node "a" at`, `in epoch "e2" now`, "measure again"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a, b := startANode(t, "a", control.ServerConfig{}),
				startANode(t, "b", control.ServerConfig{})
			begin := time.Now()
			code, _, stderr := during(a, b, func() { tc.what(a, b) })
			if code != tc.code {
				t.Errorf("exit code %d, want %d: %s", code, tc.code, stderr)
			}
			for _, want := range tc.want {
				if !strings.Contains(stderr, want) {
					t.Errorf("no %q in %s", want, stderr)
				}
			}
			if took := time.Since(begin); took > 20*time.Second {
				t.Errorf("it took %v", took)
			}
		})
	}
}

func TestRelateRefuses(t *testing.T) {
	dir := t.TempDir()
	secret, public, admin := filepath.Join(dir, "command.secret"),
		filepath.Join(dir, "command.public"), filepath.Join(dir, "me.secret")
	clients := filepath.Join(dir, "clients")
	if err := os.Mkdir(clients, 0o700); err != nil {
		t.Fatal(err)
	}
	key, err := control.NewKey("command", control.RoleServer)
	if err != nil {
		t.Fatal(err)
	}
	me, err := control.NewKey("me", control.RoleAdmin)
	if err != nil {
		t.Fatal(err)
	}
	stranger, err := control.NewKey("stranger", control.RoleAdmin)
	if err != nil {
		t.Fatal(err)
	}
	for path, k := range map[string]control.Key{
		secret: key, public: key.Halved(), admin: me,
		filepath.Join(clients, "me.public"):   me.Halved(),
		filepath.Join(dir, "stranger.secret"): stranger,
	} {
		if err := k.Write(path); err != nil {
			t.Fatal(err)
		}
	}
	keyed := control.ServerConfig{Key: &key,
		Clients: func() ([]control.Key, error) { return control.ReadClientKeys(clients) }}
	a, b := startANode(t, "a", control.ServerConfig{}), startANode(t, "a", control.ServerConfig{})
	c, d := startANode(t, "c", keyed), startANode(t, "d", keyed)
	short := []string{"--seconds", "0.1", "--trains", "4"}
	for name, tc := range map[string]struct {
		args []string
		code int
		want string
	}{
		"same name": {[]string{a.commands.Address(), b.commands.Address()}, command.Failed,
			`both nodes are named "a"`},
		"same place": {[]string{"h:1", "h:1"}, command.Usage, "name two"},
		"no port":    {[]string{"h", "g:1"}, command.Usage, "want HOST:PORT"},
		"no time":    {[]string{"h:1", "g:1", "--seconds", "0"}, command.Usage, "more than 0"},
		"half a key": {[]string{"h:1", "g:1", "--key", admin}, command.Usage, "give both"},
		"needs keys": {[]string{"192.0.2.1:1", "192.0.2.2:1"}, command.Failed, "without keys"},
		"with keys": {[]string{c.commands.Address(), d.commands.Address(), "--key",
			admin, "--node-key", public}, command.Answered, ""},
		"without keys": {[]string{c.commands.Address(), d.commands.Address()}, command.Failed,
			"do the keys fit"},
		"a stranger": {[]string{c.commands.Address(), d.commands.Address(), "--key",
			filepath.Join(dir, "stranger.secret"), "--node-key", public}, command.Failed,
			"do the keys fit"},
		"not an address": {[]string{"127.0.0.1:1", a.commands.Address()}, command.Failed,
			"no tsc-client answers at 127.0.0.1:1"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			args := append([]string{"relate"}, tc.args...)
			if tc.code == command.Answered {
				args = append(args, short...)
			}
			if code, _, stderr := cprof(args...); code != tc.code ||
				!strings.Contains(stderr, tc.want) {
				t.Errorf("exit code %d, want %d with %q: %s", code, tc.code, tc.want, stderr)
			}
		})
	}
}

// If --node-key is given and --key is not, relate takes its own key from the environment. Without
// either flag, it asks the nodes without keys, even if the environment names a key.
func TestRelateKeyFromEnvironment(t *testing.T) {
	missing := filepath.Join(t.TempDir(), "me.secret")
	t.Setenv("CLOUDPROFILER_KEY", missing)
	for _, tc := range []struct {
		args []string
		want string
	}{
		{[]string{"--node-key", "server.public"}, missing},
		{nil, "without keys"},
		{[]string{"--key", missing}, "give both"},
	} {
		args := append([]string{"relate", "192.0.2.1:1", "192.0.2.2:1"}, tc.args...)
		if _, _, stderr := cprof(args...); !strings.Contains(stderr, tc.want) {
			t.Errorf("%v: %s, want %q", tc.args, stderr, tc.want)
		}
	}
}
