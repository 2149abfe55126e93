package main

import (
	"context"
	"fmt"
	"log/slog"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/cloudprofiler/cloudprofiler/agent"
	"github.com/cloudprofiler/cloudprofiler/control"
	"github.com/cloudprofiler/cloudprofiler/coordinator"
	"github.com/cloudprofiler/cloudprofiler/handlers"
)

// startServer runs a server until the test ends, and returns its address.
func startServer(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	store, err := coordinator.OpenStore(filepath.Join(dir, "state"), filepath.Join(dir, "runs"))
	if err != nil {
		t.Fatal(err)
	}
	link, err := control.Listen(control.ServerConfig{Address: "127.0.0.1:0", Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	server, err := coordinator.NewServer(link, coordinator.DefaultConfig(), store, slog.New(slog.DiscardHandler))
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
	return link.Address()
}

// A program on one node asks, and the flight recorders of both are written down.
func TestSnapshotOfAFleet(t *testing.T) {
	t.Setenv(droppedVariable, "")
	address := startServer(t)
	ctx, stop := context.WithCancel(t.Context())
	dir := t.TempDir()
	code := make(chan int, 2)
	recorders := map[string]*handlers.Channel{}
	locals := map[string]*agent.Local{}
	for _, node := range []string{"na", "nb"} {
		rings := filepath.Join(dir, node, "rings")
		var stdout, stderr output
		go func() {
			code <- program(nil).Run(ctx, []string{"--node", node, "--rings", rings, "--state", filepath.Join(dir, node, "state"), "--chrony", "off", "--server", address}, &stdout, &stderr)
		}()
		waitFor(t, "agent "+node, func() bool { return strings.Contains(stderr.String(), "registered") })
		var err error
		if recorders[node], err = handlers.Open("recorder/x", handlers.Options{Dir: rings, Policy: "overwrite", Handler: "id"}); err != nil {
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
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
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
		waitFor(t, fmt.Sprintf("the snapshot of %s", node), func() bool { return rows(node) >= 100 })
	}
	stop()
	for range 2 {
		if c := <-code; c != 0 {
			t.Errorf("exit code %d", c)
		}
	}
}
