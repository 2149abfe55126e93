package fleet

import (
	"context"
	"encoding/json"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/cloudprofiler/cloudprofiler/asm"
	"github.com/cloudprofiler/cloudprofiler/control"
	"github.com/cloudprofiler/cloudprofiler/coordinator"
	"github.com/cloudprofiler/cloudprofiler/handlertable"
	"github.com/cloudprofiler/cloudprofiler/internal/command"
	"github.com/cloudprofiler/cloudprofiler/internal/daemon"
	"github.com/cloudprofiler/cloudprofiler/minrtt"
	"github.com/cloudprofiler/cloudprofiler/runs"
	"github.com/cloudprofiler/cloudprofiler/tscclient"
	"github.com/cloudprofiler/cloudprofiler/tscratio"
)

// aFleet is a server with keys that runs in this process.
type aFleet struct {
	t       *testing.T
	address string
	keys    string // directory of the keys
	runs    string // directory of the runs
}

// startAFleet makes keys with the commands that a user would run, and starts a server with these
// keys.
func startAFleet(t *testing.T, names ...string) *aFleet {
	t.Helper()
	dir := t.TempDir()
	f := &aFleet{t: t, keys: filepath.Join(dir, "keys"), runs: filepath.Join(dir, "runs")}
	f.want(command.Answered, "server.public", "keys", "server", "--dir", f.keys)
	for _, name := range names {
		f.want(command.Answered, "tsc-client --server", "keys", "client", name, "--dir", f.keys)
	}
	f.want(command.Answered, "cprof nodes --server", "keys", "client", "you", "--admin", "--dir",
		f.keys)

	config, err := daemon.Listen("127.0.0.1:0",
		daemon.Setting{Key: "key", Value: f.key("server.secret")},
		daemon.Setting{Key: "client_keys", Value: f.key("clients")})
	if err != nil {
		t.Fatal(err)
	}
	link, err := control.Listen(config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { link.Close() })
	store, err := coordinator.OpenStore(filepath.Join(dir, "state"), f.runs)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { store.Close() })
	c := coordinator.DefaultConfig()
	c.SweepEvery, c.Sweep.Trains, c.Sweep.Exchanges = 0, 2, 5
	c.Sweep.Quiet = coordinator.Quiet{} // do not wait for quiet: other tests run at the same time
	// On a busy machine, an answer may take longer than the default.
	c.Sweep.Timeout = 10 * time.Second
	server, err := coordinator.NewServer(link, c, store, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- server.Run(ctx) }()
	t.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	f.address = link.Address()
	t.Setenv("CLOUDPROFILER_SERVER", f.address)
	t.Setenv("CLOUDPROFILER_KEY", f.key("you.secret"))
	t.Setenv("CLOUDPROFILER_SERVER_KEY", f.key("server.public"))
	return f
}

func (f *aFleet) key(name string) string { return filepath.Join(f.keys, name) }

// join registers a node that can probe, as a tsc-client does. The node also claims the given
// capabilities. The returned function removes the node.
func (f *aFleet) join(name string, more ...string) (leave func()) {
	f.t.Helper()
	config := tscclient.DefaultConfig()
	config.Node = tscratio.Node{Name: name, Epoch: "e1", Nominal_hz: 2.6e9, Quantum_cycles: 30,
		CoreSlack_cycles: 2000}
	offset := uint64(name[0]) << 50
	config.Clock = minrtt.Clock{Counter: func() uint64 { return asm.Counter() + offset }}
	config.Secret = minrtt.NewSecret()
	client, err := tscclient.Start(config)
	if err != nil {
		f.t.Fatal(err)
	}
	f.t.Cleanup(func() { client.Close() })
	l, err := daemon.Link(name, f.address, f.key(name+".secret"), f.key("server.public"), "")
	if err != nil {
		f.t.Fatal(err)
	}
	l.Register = control.Register{Machine: "machine-" + name, Cores: 2,
		Software: "tsc-client devel", Capabilities: more}
	link, err := tscclient.Connect(client, l)
	if err != nil {
		f.t.Fatal(err)
	}
	f.t.Cleanup(func() { link.Close() })
	for end := time.Now().Add(3 * time.Minute); !link.State().Registered; time.Sleep(
		5 * time.Millisecond) {
		if time.Now().After(end) {
			f.t.Fatalf("node %s does not register: %+v", name, link.State())
		}
	}
	return func() { link.Close() }
}

// want runs cprof and checks the exit code. The output must contain the text. The method want
// returns the output.
func (f *aFleet) want(code int, text string, args ...string) string {
	f.t.Helper()
	got, stdout, stderr := cprof(args...)
	if got != code || !strings.Contains(stdout+stderr, text) {
		f.t.Errorf("cprof %s: exit code %d, want %d and %q:\n%s%s", strings.Join(args, " "), got,
			code, text, stdout, stderr)
	}
	return stdout
}

// After a restart, the server does not know a sweep (a measurement of all pairs) that began before.
func TestSweepThatNoLongerExists(t *testing.T) {
	server, err := control.Listen(control.ServerConfig{Address: "127.0.0.1:0"})
	if err != nil {
		t.Fatal(err)
	}
	defer server.Close()
	go func() {
		for _, result := range []string{`{"running":true}`, `null`} {
			in, err := server.Receive(t.Context())
			if err != nil {
				return
			}
			server.Send(in.Peer, in.Request, &control.Answer{Result: json.RawMessage(result)})
		}
	}()
	code, _, stderr := cprof("nodes", "--sweep", "--server", server.Address())
	if code != command.Failed || !strings.Contains(stderr, "sweep no longer exists") {
		t.Errorf("exit code %d: %s", code, stderr)
	}
}

func TestNodesOfAFleet(t *testing.T) {
	f := startAFleet(t, "alpha", "beta")
	f.want(command.Answered, "no node has registered", "nodes")
	f.join("alpha")
	leave := f.join("beta")
	for _, text := range []string{"alpha  here", "beta   here", "1 of 1 pairs complete", "healthy",
		"bound of the row's readings"} {
		f.want(command.Answered, text, "nodes", "--sweep")
	}
	f.want(command.Answered, "alpha into beta: ±", "nodes", "alpha", "beta")
	f.want(command.Usage, "name two nodes", "nodes", "alpha")
	f.want(command.Failed, "not known", "nodes", "alpha", "stranger")
	f.want(command.Answered, "consistent", "nodes", "--pairs")
	svg := filepath.Join(t.TempDir(), "matrix.svg")
	var m coordinator.Matrix
	if err := json.Unmarshal([]byte(f.want(command.Answered, `"pairs"`, "nodes", "--json", "--svg",
		svg)), &m); err != nil || len(m.Pairs) != 2 || m.Pairs[0].Bound_ns <= 0 {
		t.Errorf("%+v, %v", m.Pairs, err)
	}
	if drawn, err := os.ReadFile(svg); err != nil || !strings.Contains(string(drawn), "beta") {
		t.Errorf("%.100s, %v", drawn, err)
	}

	f.want(command.Failed, "role", "nodes", "--key", f.key("beta.secret"))
	f.want(command.Answered, "stranger", "keys", "client", "stranger", "--admin", "--dir", f.keys)
	if err := os.Remove(filepath.Join(f.keys, "clients", "stranger.public")); err != nil {
		t.Fatal(err)
	}
	f.want(command.Failed, `key "stranger": server cannot be reached: it does not let this key in`,
		"nodes", "--key", f.key("stranger.secret"))
	f.want(command.Usage, "belong together", "nodes", "--key", "")
	f.want(command.Usage, "not the key of a server", "nodes", "--server-key", f.key("beta.secret"))

	leave()
	f.want(command.Partial, "beta is gone", "nodes")
}

func TestRunOfAFleet(t *testing.T) {
	f := startAFleet(t, "alpha", "beta", "gamma")
	f.join("alpha")
	f.join("beta")
	f.want(command.Answered, "there was no run", "run", "status")
	f.want(command.Failed, "no run is under way", "run", "stop")
	f.want(command.Usage, `check run name "a/b": "/" is not a letter`, "run", "start", "a/b")
	f.want(command.Failed, "gamma", "run", "start", "tuesday", "--reference", "gamma")
	f.want(command.Answered, "run tuesday: open", "run", "start", "tuesday", "--reference", "alpha",
		"--note", "as a test")
	f.want(command.Failed, "stop it first", "run", "start", "wednesday")
	f.want(command.Answered, "open", "run", "status", "--json")
	// Nodes that can only probe have no logs, so the run lacks nothing.
	f.want(command.Answered, "run tuesday: complete, 1 pair,", "run", "stop")
	f.want(command.Answered, filepath.Join(f.runs, "tuesday")+"\n", "run", "status")
	f.want(command.Answered, "complete", "run", "status")

	run, err := runs.Open(filepath.Join(f.runs, "tuesday"))
	if err != nil {
		t.Fatal(err)
	}
	defer run.Close()
	if r := run.Run; r.Reference != "alpha" || r.Note != "as a test" || len(r.Nodes) != 2 ||
		len(r.Missing) > 0 {
		t.Errorf("%+v", r)
	}
	if pairs, errs := run.Relations(); len(pairs) != 1 || pairs[0].Trains() < 4 {
		t.Errorf("%d pairs, %v", len(pairs), errs)
	}

	f.join("gamma", control.CanRun, control.CanFiles) // gamma claims both, and has neither
	f.want(command.Partial, "missing: node gamma", "run", "start", "friday")
	said := f.want(command.Partial, "missing: logs/gamma", "run", "stop")
	if strings.Count(said, "missing: node gamma") != 1 ||
		strings.Contains(said, "missing: logs/alpha") {
		t.Errorf("what is missing is not said once:\n%s", said)
	}

	f.want(command.Partial, "missing: logs/gamma", "run", "collect", "friday")
	f.want(command.Answered, "run tuesday: complete, in ", "run", "collect", "tuesday")
	f.want(command.Failed, "no complete run \"nobody\"", "run", "collect", "nobody")
	// Because the environment names a server, snapshot asks the whole fleet. The flag --rings
	// instead names the rings of one node, which contradicts that.
	f.want(command.Partial, "no channel on 0 nodes has policy overwrite", "snapshot")
	f.want(command.Failed, "--fleet asks the agents of all nodes", "snapshot", "--rings",
		filepath.Join(f.runs, "nosuch"))
	f.want(command.Answered, "as a test", "run", "list")
	f.want(command.Answered, "removed tuesday", "run", "rm", "tuesday")
	if _, err := os.Stat(filepath.Join(f.runs, "tuesday")); !os.IsNotExist(err) {
		t.Errorf("the run is there: %v", err)
	}
	f.want(command.Failed, "tuesday", "run", "rm", "tuesday")
	if said := f.want(command.Answered, "healthy", "nodes"); strings.Contains(said, "tuesday") {
		t.Errorf("the run that was removed is still there:\n%s", said)
	}
}

func TestConfigOfAFleet(t *testing.T) {
	f := startAFleet(t)
	file := func(text string) string {
		path := filepath.Join(t.TempDir(), "handlers.yaml")
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	const table = "# by hand\nversion: 1\nrules:\n  - channel: \"parser/*\"\n    handler: id\n"
	f.want(command.Failed, "no table yet", "config", "get")
	f.want(command.Failed, "bad handler table", "config", "apply",
		file("version: 1\nrules: [nonsense]\n"))
	f.want(command.Answered, "generation 1 is served", "config", "apply", file(table))
	if got := f.want(command.Answered, "", "config", "get"); got != table {
		t.Errorf("the server has\n%s, want\n%s", got, table)
	}
	f.want(command.Answered, "handler: id", "config", "diff", file(table))
	f.want(command.Partial, "+    handler: counter", "config", "diff",
		file(strings.Replace(table, "handler: id", "handler: counter", 1)))
	f.want(command.Usage, "nonsense", "config", "set", "join/*", "nonsense")
	f.want(command.Answered, "2 is served; 0 of 0 nodes use it\n", "config", "set",
		"join/*", "xoy", "--params",
		"{x: 2, y: 1Ki}", "--node", "canary-*")
	f.want(command.Answered, "generation 3", "config", "set", "parser/*", "counter")
	got := f.want(command.Answered, "canary-*", "config", "get")
	if strings.Contains(got, "handler: id") || strings.Index(got, "parser/*") > strings.Index(got,
		"join/*") {
		t.Errorf("the new rule is not before the others, or the old one is still there:\n%s", got)
	}
}

func TestRunAbort(t *testing.T) {
	f := startAFleet(t, "alpha", "beta")
	f.join("alpha")
	f.join("beta")
	f.want(command.Failed, "no run is under way", "run", "abort")
	f.want(command.Answered, "run r: open", "run", "start", "r")
	f.want(command.Partial, "the run was aborted: open", "run", "abort")
	f.want(command.Answered, "complete", "run", "list")
}

func TestNodeForget(t *testing.T) {
	f := startAFleet(t, "alpha", "beta")
	f.join("alpha")
	leave := f.join("beta")
	f.want(command.Failed, "stop its client first", "node", "forget", "beta")
	f.want(command.Failed, `node "gamma" is not known`, "node", "forget", "gamma")
	f.want(command.Usage, "NAME is missing", "node", "forget")
	leave()
	f.want(command.Partial, "node beta is gone", "nodes")
	f.want(command.Answered, "forgot beta", "node", "forget", "beta")
	if got := f.want(command.Answered, "alpha", "nodes"); strings.Contains(got, "beta") {
		t.Errorf("a node that is forgotten:\n%s", got)
	}
}

func TestKeys(t *testing.T) {
	dir := t.TempDir()
	f := &aFleet{t: t}
	f.want(command.Failed, `make the server's key first`, "keys", "client", "beta", "--dir", dir)
	f.want(command.Answered, "server.secret", "keys", "server", "--dir", dir)
	// A new server key would lock out all clients, so an existing key is not replaced.
	f.want(command.Failed, "server.secret", "keys", "server", "--dir", dir)
	f.want(command.Usage, "choose another", "keys", "client", "server", "--dir", dir)
	f.want(command.Usage, "name", "keys", "client", "a b", "--dir", dir)
	f.want(command.Answered, `lets node "beta" in`, "keys", "client", "beta", "--dir", dir)
	f.want(command.Failed, "beta.secret", "keys", "client", "beta", "--dir", dir)
	f.want(command.Answered, `lets admin "you" in`, "keys", "client", "you", "--admin", "--dir",
		dir)
	for name, role := range map[string]control.Role{"server": control.RoleServer,
		"beta": control.RoleNode, "you": control.RoleAdmin} {
		path := filepath.Join(dir, name+".secret")
		key, err := control.ReadKey(path)
		if err != nil || key.Name != name || key.Role != role || key.Secret == "" {
			t.Errorf("%s: %+v, %v", path, key.Halved(), err)
		}
		if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%s: %v, %v", path, info, err)
		}
	}
	if clients, err := control.ReadClientKeys(filepath.Join(dir, "clients")); err != nil ||
		len(clients) != 2 {
		t.Errorf("%d clients are let in, %v", len(clients), err)
	}
}

// A table is applied, and cprof says how many channels got its rules, and which rules no channel
// got.
func TestPrintUses(t *testing.T) {
	rules := []handlertable.Rule{{Channel: "parser/*"}, {Node: "b*", Channel: "nosuch/*"}}
	for name, test := range map[string]struct {
		uses []coordinator.TableUse
		want string
	}{
		"every node says": {[]coordinator.TableUse{
			{Node: "a", Generation: 7, Matched: []int{3, 0, 9}},
			{Node: "b", Generation: 7, Matched: []int{1, 0, 9}},
		}, "generation 7 is served; 2 of 2 nodes use it, for 4 open channels\n" +
			"! no channel that is open now gets rule 2, for channel \"nosuch/*\" on node " +
			"\"b*\": a channel that a program opens later may\n"},
		"one refuses and one is late": {[]coordinator.TableUse{
			{Node: "a", Generation: 6, Error: "no room"}, {Node: "b", Generation: 6},
			{Node: "c", Generation: 7, Matched: []int{1, 1}},
		}, "generation 7 is served; 1 of 3 nodes use it, for 2 open channels\n" +
			"! node a uses generation 6: no room\n" +
			"! node b uses generation 6: it has not answered yet\n"},
		"an old agent does not say": {[]coordinator.TableUse{{Node: "a", Generation: 7}},
			"generation 7 is served; 1 of 1 nodes use it\n"},
		"no node": {nil, "generation 7 is served; 0 of 0 nodes use it\n"},
	} {
		var out strings.Builder
		table := coordinator.TableRequest{Base: 7, Uses: test.uses}
		if err := printUses(&out, table, rules); err != nil || out.String() != test.want {
			t.Errorf("%s: %v\n%s\nwant\n%s", name, err, out.String(), test.want)
		}
	}
}
