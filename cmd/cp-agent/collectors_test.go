package main

import (
	"errors"
	"fmt"
	"io"
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
	"github.com/cloudprofiler/cloudprofiler/internal/proof"
	"github.com/cloudprofiler/cloudprofiler/internal/reexec"
	"github.com/cloudprofiler/cloudprofiler/logstore"
	"github.com/cloudprofiler/cloudprofiler/runs"
)

// Two of a fleet's agents collect the logs of the others. In the full test, one of these two
// collectors is killed as soon as it has collected some logs. Even so, the run has all logs of all
// other agents, complete. The run names the logs of the collector that died, and only these, as
// missing.
//
// Shortly after the nodes have started, the collectors may not find every node. Then the server
// itself fetches the logs of the nodes that they do not find. So the test repeats the run until the
// collectors have found all nodes.
func TestCollectors(t *testing.T) {
	const records, shared = 5000, 100
	nodes, kill := 5, false
	if size, err := proof.Wanted(); err != nil {
		t.Fatal(err)
	} else if size == proof.Full {
		nodes, kill = 12, true
	}
	config := coordinator.DefaultConfig()
	config.Heartbeat, config.Dead, config.Return = 100*time.Millisecond, time.Second, time.Second
	config.AllPairs, config.Degree = 3, 2
	config.Collectors = []string{"n0", "n1"}
	address, kept := startServer(t, config)
	link, err := control.Dial(control.ClientConfig{Server: address})
	if err != nil {
		t.Fatal(err)
	}
	defer link.Close()
	dir := t.TempDir()
	state := func(i int) string { return filepath.Join(dir, fmt.Sprint("n", i), "state") }
	var agents []*exec.Cmd
	var said []*output
	var channels []*handlers.Channel
	for i := range nodes {
		rings := filepath.Join(dir, fmt.Sprint("n", i), "rings")
		cmd, err := reexec.Command("--node", fmt.Sprint("n", i), "--rings", rings, "--state",
			state(i), "--chrony", "off", "--server", address, "--min-free", "0")
		if err != nil {
			t.Fatal(err)
		}
		var stderr output
		cmd.Stderr, cmd.Env = &stderr, append(os.Environ(), roleVariable+"=1", droppedVariable+"=")
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
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
	enough := nodes - 2
	if kill {
		enough = 1
	}
	collected := 0
	for try := 1; collected < enough; try++ {
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
			waitFor(t, "the server to hear that n0 has some logs", func() bool {
				return ask(coordinator.AskRun, nil).Collectors["n0"] > 0
			})
			agents[0].Process.Kill()
		}
		status := come(coordinator.PhaseComplete)
		t.Logf("collected %v, missing %v", status.Collectors, status.Missing)
		collected = status.Collectors["n0"] + status.Collectors["n1"]
		for _, m := range status.Missing {
			lost := kill && (m.Part == "node n0" || m.Part == "logs/n0")
			if !lost && !strings.HasPrefix(m.Part, "relations/") { // not all pairs are measured
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
			if i == 0 && kill {
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
