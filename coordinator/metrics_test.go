package coordinator

import (
	"context"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/cloudprofiler/cloudprofiler/control"
)

// A server is registered with its metrics before it runs.
func TestMetricsAreGatheredFromARunningServer(t *testing.T) {
	store, err := OpenStore(t.TempDir(), t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	link, err := control.Listen(control.ServerConfig{Address: "127.0.0.1:0"})
	if err != nil {
		t.Fatal(err)
	}
	defer link.Close()
	s, err := NewServer(link, DefaultConfig(), store, nil)
	if err != nil {
		t.Fatal(err)
	}
	registry := prometheus.NewRegistry()
	registered := make(chan error, 1)
	go func() { registered <- registry.Register(s) }()
	select {
	case err := <-registered:
		if err != nil {
			t.Fatal(err)
		}
	case <-time.After(10 * time.Second):
		t.Fatal("registering metrics waits for a server that does not run yet")
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- s.Run(ctx) }()
	families, err := registry.Gather()
	if err != nil || len(families) == 0 {
		t.Errorf("%d metrics, %v", len(families), err)
	}
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}
