package main

import (
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/cloudprofiler/cloudprofiler/agent"
	"github.com/cloudprofiler/cloudprofiler/control"
	"github.com/cloudprofiler/cloudprofiler/coordinator"
	"github.com/cloudprofiler/cloudprofiler/handlers"
	"github.com/cloudprofiler/cloudprofiler/internal/reexec"
	"github.com/cloudprofiler/cloudprofiler/runs"
)

// startServer runs a server until the test ends. It returns the server's address and the directory
// of its runs.
func startServer(t *testing.T, config coordinator.Config) (address, runs string) {
	t.Helper()
	return startServerAt(t, config, control.ServerConfig{Address: "127.0.0.1:0"})
}

func startServerAt(
	t *testing.T, config coordinator.Config, at control.ServerConfig,
) (address, runs string) {
	t.Helper()
	at.Log = slog.New(slog.DiscardHandler)
	dir := t.TempDir()
	store, err := coordinator.OpenStore(filepath.Join(dir, "state"), filepath.Join(dir, "runs"))
	if err != nil {
		t.Fatal(err)
	}
	link, err := control.Listen(at)
	if err != nil {
		t.Fatal(err)
	}
	server, err := coordinator.NewServer(link, config, store, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- server.Run(ctx) }()
	t.Cleanup(func() {
		stop()
		<-ended
		link.Close()
		store.Close()
	})
	return link.Address(), filepath.Join(dir, "runs")
}

// If a program on one node asks for a snapshot of the fleet, the agents of both nodes dump their
// flight recorders.
func TestSnapshotOfAFleet(t *testing.T) {
	t.Setenv(droppedVariable, "")
	address, _ := startServer(t, coordinator.DefaultConfig())
	ctx, stop := context.WithCancel(t.Context())
	dir := t.TempDir()
	code := make(chan int, 2)
	recorders := map[string]*handlers.Channel{}
	locals := map[string]*agent.Local{}
	for _, node := range []string{"na", "nb"} {
		rings := filepath.Join(dir, node, "rings")
		var stdout, stderr output
		go func() {
			args := []string{"--node", node, "--rings", rings,
				"--state", filepath.Join(dir, node, "state"),
				"--chrony", "off", "--server", address}
			code <- program(nil).Run(ctx, args, &stdout, &stderr)
		}()
		waitFor(t, "agent "+node,
			func() bool { return strings.Contains(stderr.String(), "registered") })
		var err error
		if recorders[node], err = handlers.Open("recorder/x",
			handlers.Options{Dir: rings, Policy: "overwrite", Handler: "id"}); err != nil {
			t.Fatal(err)
		}
		defer recorders[node].Close()
		for id := range uint64(100) {
			recorders[node].Log(id)
		}
		if locals[node], err = agent.Connect(rings); err != nil {
			t.Fatal(err)
		}
	}
	rows := func(node string) uint64 {
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
		defer cancel()
		s, err := locals[node].Status(ctx)
		if err != nil {
			t.Fatal(err)
		}
		return s.Total.Rows
	}
	if n := rows("na") + rows("nb"); n >= 100 {
		t.Fatalf("%d rows before anybody asked", n)
	}
	recorders["na"].Snapshot()
	for _, node := range []string{"na", "nb"} {
		waitFor(t, "the snapshot of "+node, func() bool { return rows(node) >= 100 })
	}
	stop()
	for range 2 {
		if c := <-code; c != 0 {
			t.Errorf("exit code %d", c)
		}
	}
}

// An agent is killed while a run is open, and started again after the run has ended. The agent then
// closes the run, and the server can fetch the run's logs from it.
func TestRunThatEndedMeanwhile(t *testing.T) {
	config := coordinator.DefaultConfig()
	// With a shorter Dead, the server of a busy machine would believe that living agents are dead.
	config.Heartbeat, config.Dead, config.Return = 100*time.Millisecond, 5*time.Second, time.Second
	address, kept := startServer(t, config)
	link, err := control.Dial(control.ClientConfig{Server: address})
	if err != nil {
		t.Fatal(err)
	}
	defer link.Close()
	ask := func(what string, argument any) *coordinator.RunStatus {
		t.Helper()
		var status *coordinator.RunStatus
		if err := link.Ask(t.Context(), what, argument, &status); err != nil {
			t.Fatal(err)
		}
		return status
	}
	come := func(phase coordinator.Phase) *coordinator.RunStatus {
		t.Helper()
		var status *coordinator.RunStatus
		waitFor(t, "the run to be "+string(phase), func() bool {
			status = ask(coordinator.AskRun, nil)
			return status != nil && status.Phase == phase
		})
		return status
	}

	dir := t.TempDir()
	rings, state := filepath.Join(dir, "rings"), filepath.Join(dir, "state")
	start := func() (kill func()) {
		cmd, err := reexec.Command("--node", "na", "--rings", rings, "--state", state,
			"--chrony", "off", "--server", address)
		if err != nil {
			t.Fatal(err)
		}
		var stderr output
		cmd.Stderr, cmd.Env = &stderr, append(os.Environ(), roleVariable+"=1", droppedVariable+"=")
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		kill = sync.OnceFunc(func() {
			cmd.Process.Kill()
			cmd.Wait()
		})
		t.Cleanup(kill)
		waitFor(t, "the agent",
			func() bool { return strings.Contains(stderr.String(), "registered") })
		return kill
	}
	kill := start()
	ask(coordinator.AskStartRun, coordinator.RunRequest{Name: "tuesday"})
	come(coordinator.PhaseOpen)
	ch, err := handlers.Open("actor/x", handlers.Options{
		Dir: rings, Policy: "overwrite", Handler: "id",
	})
	if err != nil {
		t.Fatal(err)
	}
	defer ch.Close()
	for id := range uint64(100) {
		ch.Log(id)
	}
	logs := filepath.Join(state, "runs", "tuesday", "logs", "na")
	waitFor(t, "the log", func() bool {
		entries, err := os.ReadDir(logs)
		return err == nil && len(entries) > 0
	})
	kill()
	ask(coordinator.AskStopRun, nil)
	if status := come(coordinator.PhaseComplete); len(status.Missing) == 0 {
		t.Fatal("nothing is missing")
	}

	start()
	local, err := agent.Connect(rings)
	if err != nil {
		t.Fatal(err)
	}
	waitFor(t, "the agent to close the run", func() bool {
		s, err := local.Status(t.Context())
		return err == nil && s.Run == ""
	})
	ask(coordinator.AskCollectRun, coordinator.RunRequest{Name: "tuesday"})
	come(coordinator.PhaseComplete)
	run, err := runs.Open(filepath.Join(kept, "tuesday"))
	if err != nil {
		t.Fatal(err)
	}
	defer run.Close()
	all, missing := run.Logs()
	if len(missing) > 0 || len(all) != 1 || len(all[0].Segments) == 0 || len(run.Run.Missing) > 0 {
		t.Errorf("logs %v, missing %v and %v", all, missing, run.Run.Missing)
	}
}
