package main

import (
	"errors"
	"fmt"
	"io"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/cloudprofiler/cloudprofiler/agent"
	"github.com/cloudprofiler/cloudprofiler/control"
	"github.com/cloudprofiler/cloudprofiler/coordinator"
	"github.com/cloudprofiler/cloudprofiler/handlers"
	"github.com/cloudprofiler/cloudprofiler/internal/netns"
	"github.com/cloudprofiler/cloudprofiler/internal/privileged"
	"github.com/cloudprofiler/cloudprofiler/internal/proof"
	"github.com/cloudprofiler/cloudprofiler/internal/reexec"
	"github.com/cloudprofiler/cloudprofiler/logstore"
	"github.com/cloudprofiler/cloudprofiler/runs"
)

// Two of a fleet's agents collect the logs of the others. In the full test, one of these two
// collectors is killed as soon as it has collected some logs. Even so, the run has the complete
// logs of all other agents. The run names the logs of the collector that died, and only these, as
// missing.
//
// Shortly after the nodes have started, the collectors may not find every node. Then the server
// itself fetches the logs of the nodes that they do not find. So the test repeats the run until the
// collectors have found all nodes.
func TestCollectors(t *testing.T) {
	nodes, kill := 5, false
	if size, err := proof.Wanted(); err != nil {
		t.Fatal(err)
	} else if size == proof.Full {
		nodes, kill = 12, true
	}
	testCollectors(t, nodes, kill, nil)
}

// This test does the same as TestCollectors, but each agent and the server have a network namespace
// of their own, and connections use keys. A collector is killed while it has logs of other nodes.
func TestPrivilegedCollectorsInNamespaces(t *testing.T) {
	privileged.Need(t)
	const nodes, alone = 6, "alone"
	// All clients of a process use one set of threads, which stays in the namespace of the first
	// client. So the test runs in a process of its own.
	if os.Getenv(roleVariable+"_NETNS") != alone {
		cmd, err := reexec.Command("-test.run=^"+t.Name()+"$", "-test.v")
		if err != nil {
			t.Fatal(err)
		}
		cmd.Env = append(os.Environ(), roleVariable+"_NETNS="+alone)
		out, err := cmd.CombinedOutput()
		if t.Logf("%s", out); err != nil {
			t.Fatal(err)
		}
		return
	}
	star, err := netns.NewStar(nodes)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(star.Close)
	testCollectors(t, nodes, true, star)
}

// A site is where the parts of a fleet run: in the namespaces of a star, or on this machine.
type site struct {
	star         *netns.Star // nil: all on this machine, without keys
	dir          string      // with the keys
	server, user control.Key
}

func newSite(t *testing.T, nodes int, star *netns.Star) *site {
	t.Helper()
	s := &site{star: star, dir: t.TempDir()}
	if star == nil {
		return s
	}
	make := func(name string, role control.Role) control.Key {
		k, err := control.NewKey(name, role)
		if err == nil {
			err = errors.Join(k.Write(filepath.Join(s.dir, name+".secret")),
				k.Halved().Write(filepath.Join(s.dir, name+".public")))
		}
		if err != nil {
			t.Fatal(err)
		}
		return k
	}
	s.server, s.user = make("server", control.RoleServer), make("user", control.RoleAdmin)
	for i := range nodes {
		make(fmt.Sprint("n", i), control.RoleNode)
	}
	return s
}

// do runs a function in the namespace of a node or of the server. Sockets that the function opens,
// and processes that it starts, remain there.
func (s *site) do(t *testing.T, end int, f func() error) {
	t.Helper()
	run := f
	if s.star != nil {
		run = func() error { return s.star.Do(end, f) }
	}
	if err := run(); err != nil {
		t.Fatal(err)
	}
}

// start starts the server, and connects to it.
func (s *site) start(
	t *testing.T, c coordinator.Config,
) (link *control.Client, address, kept string) {
	t.Helper()
	server, client := control.ServerConfig{Address: "127.0.0.1:0"}, control.ClientConfig{}
	if s.star != nil {
		server = control.ServerConfig{Key: &s.server, Clients: control.ClientKeys(s.dir),
			Address: netip.AddrPortFrom(s.star.Addr(netns.Hub), 7330).String()}
		client.Key, client.Public = &s.user, s.server.Public
	}
	s.do(t, netns.Hub, func() (err error) {
		address, kept = startServerAt(t, c, server)
		client.Server = address
		link, err = control.Dial(client)
		return err
	})
	t.Cleanup(func() { link.Close() })
	return link, address, kept
}

// flags returns those flags of an agent that depend on the site.
func (s *site) flags(i int) []string {
	if s.star == nil {
		return nil
	}
	return []string{"--key", filepath.Join(s.dir, fmt.Sprint("n", i, ".secret")),
		"--server-key", filepath.Join(s.dir, "server.public"),
		"--probes", netip.AddrPortFrom(s.star.Addr(i), 4000).String()}
}

func testCollectors(t *testing.T, nodes int, kill bool, star *netns.Star) {
	const records, shared = 5000, 100
	config := coordinator.DefaultConfig()
	config.Heartbeat, config.Return = 100*time.Millisecond, time.Second
	config.Dead = time.Minute // no agent dies: on a busy machine, the server must not believe it
	if kill {
		config.Dead = 10 * time.Second
	}
	config.AllPairs, config.Degree = 3, 2
	config.Collectors = []string{"n0", "n1"}
	site := newSite(t, nodes, star)
	link, address, kept := site.start(t, config)
	dir := t.TempDir()
	state := func(i int) string { return filepath.Join(dir, fmt.Sprint("n", i), "state") }
	var agents []*exec.Cmd
	var said []*output
	var channels []*handlers.Channel
	for i := range nodes {
		rings := filepath.Join(dir, fmt.Sprint("n", i), "rings")
		cmd, err := reexec.Command(append(site.flags(i), "--node", fmt.Sprint("n", i), "--rings",
			rings, "--state", state(i), "--chrony", "off", "--server", address,
			"--min-free", "0")...)
		if err != nil {
			t.Fatal(err)
		}
		var stderr output
		cmd.Stderr, cmd.Env = &stderr, append(os.Environ(), roleVariable+"=1", droppedVariable+"=")
		site.do(t, i, cmd.Start)
		t.Cleanup(func() {
			cmd.Process.Kill()
			cmd.Wait()
			if t.Failed() {
				t.Logf("n%d: %s", i, stderr.String())
			}
		})
		agents = append(agents, cmd)
		said = append(said, &stderr)
	}
	for i := range nodes {
		waitFor(t, "an agent",
			func() bool { return strings.Contains(said[i].String(), "registered") })
		ch, err := handlers.Open("actor/x", handlers.Options{
			Dir: filepath.Join(dir, fmt.Sprint("n", i), "rings"), Handler: "id",
		})
		if err != nil {
			t.Fatal(err)
		}
		defer ch.Close()
		channels = append(channels, ch)
	}
	local, err := agent.Connect(filepath.Join(dir, "n4", "rings"))
	if err != nil {
		t.Fatal(err)
	}
	waitFor(t, "the graph", func() bool {
		f, err := local.Find(t.Context(), "channel=actor/x")
		return err == nil && f.Node != ""
	})
	ask := func(what string, argument any) (status *coordinator.RunStatus) {
		t.Helper()
		if err := link.Ask(t.Context(), what, argument, &status); err != nil {
			t.Fatal(err)
		}
		return status
	}
	come := func(phase coordinator.Phase) (status *coordinator.RunStatus) {
		t.Helper()
		waitFor(t, "the run to be "+string(phase), func() bool {
			status = ask(coordinator.AskRun, nil)
			return status != nil && status.Phase == phase
		})
		return status
	}
	collected, killed := 0, false
	for try := 1; !killed && (kill || collected < nodes-2); try++ {
		if try > 10 {
			t.Fatal("in 10 runs, the collectors did not find the logs of all other nodes")
		}
		name := fmt.Sprint("many", try)
		ask(coordinator.AskStartRun, coordinator.RunRequest{Name: name})
		come(coordinator.PhaseOpen)
		for i, ch := range channels {
			for id := range uint64(records) {
				ch.Log(uint64(i)<<32 + id)
			}
		}
		for id := range uint64(shared) { // tuples that travel from n2 to n3
			channels[2].Log(1<<50 + id)
			channels[3].Log(1<<50 + id)
		}
		ask(coordinator.AskStopRun, nil)
		if kill {
			waitFor(t, "the server to hear that n0 has some logs, or all", func() bool {
				status := ask(coordinator.AskRun, nil)
				killed = status.Collectors["n0"] > 0 && status.Phase != coordinator.PhaseComplete
				return killed || status.Phase == coordinator.PhaseComplete
			})
		}
		if killed {
			agents[0].Process.Kill()
			agents[0].Wait()
		}
		status := come(coordinator.PhaseComplete)
		t.Logf("collected %v, missing %v", status.Collectors, status.Missing)
		collected = status.Collectors["n0"] + status.Collectors["n1"]
		for _, m := range status.Missing {
			lost := killed && (m.Part == "node n0" || m.Part == "logs/n0")
			unrelated := strings.Contains(m.Reason, "relat") // the run is short
			if !lost && !unrelated {
				t.Errorf("missing: %v", m)
			}
		}
		run, err := runs.Open(filepath.Join(kept, name))
		if err != nil {
			t.Fatal(err)
		}
		logs, _ := run.Logs()
		found := map[string]int{}
		for _, l := range logs {
			for _, s := range l.Segments {
				found[l.Node] += eventsOf(t, s.Path)
			}
		}
		if err := run.Close(); err != nil {
			t.Fatal(err)
		}
		for i := range nodes {
			if i == 0 && killed {
				continue
			}
			want := records
			if i == 2 || i == 3 {
				want += shared
			}
			if n := fmt.Sprint("n", i); found[n] != want {
				t.Errorf("the run has %d records of %s, want %d", found[n], n, want)
			}
		}
	}
	// The nodes between which tuples travelled are measured with each other from now on.
	waitFor(t, "an edge where tuples travelled", func() bool {
		var a coordinator.PairAnswer
		err := link.Ask(t.Context(), coordinator.AskPair,
			coordinator.PairRequest{From: "n3", Into: "n2"}, &a)
		return err == nil && strings.Contains(a.Why, "tuples of run many")
	})
}

// eventsOf counts the events in a log file.
func eventsOf(t *testing.T, path string) (events int) {
	t.Helper()
	file, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	reader, err := logstore.NewReader(file, path)
	if err != nil {
		t.Fatal(err)
	}
	for {
		block, err := reader.Next()
		if errors.Is(err, io.EOF) {
			return events
		}
		if err != nil {
			t.Fatal(err)
		}
		events += len(block.Events)
	}
}
