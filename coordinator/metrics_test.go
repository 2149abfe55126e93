package coordinator

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/cloudprofiler/cloudprofiler/control"
)

// idleServer returns a server that does not run yet.
func idleServer(t *testing.T) (*Server, *control.Server) {
	t.Helper()
	store, err := OpenStore(t.TempDir(), t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { store.Close() })
	link, err := control.Listen(control.ServerConfig{Address: "127.0.0.1:0"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { link.Close() })
	s, err := NewServer(link, DefaultConfig(), store, nil)
	if err != nil {
		t.Fatal(err)
	}
	return s, link
}

// If the server ends while a scraper waits for a matrix, the scraper stops waiting and gets no
// matrix.
func TestMatrixEndsWithTheServer(t *testing.T) {
	s, _ := idleServer(t)
	begun := make(chan struct{})
	s.core.background = func(func() error, func(error)) { close(begun) }
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- s.Run(ctx) }()
	got := make(chan *Matrix, 1)
	go func() { got <- s.Matrix(0) }()
	<-begun
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	select {
	case m := <-got:
		if m != nil {
			t.Errorf("a matrix of a server that ended: %+v", m)
		}
	case <-time.After(3 * time.Minute):
		t.Fatal("Matrix still waits")
	}
}

// A program can register a server's metrics before it calls Run.
func TestMetricsAreGatheredFromARunningServer(t *testing.T) {
	s, link := idleServer(t)
	registry := prometheus.NewRegistry()
	registered := make(chan error, 1)
	go func() { registered <- registry.Register(s) }()
	select {
	case err := <-registered:
		if err != nil {
			t.Fatal(err)
		}
	case <-time.After(3 * time.Minute):
		t.Fatal("registering metrics waits for a server that does not run yet")
	}
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	ended := make(chan error, 1)
	go func() { ended <- s.Run(ctx) }()
	client, err := control.Dial(control.ClientConfig{Server: link.Address()})
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	if _, err := client.Call(ctx, &control.Ping{}); !errors.Is(err, control.ErrRefused) {
		t.Errorf("a ping before the registration: %v", err)
	}
	families, err := registry.Gather()
	if err != nil || len(families) == 0 {
		t.Errorf("%d metrics, %v", len(families), err)
	}
	refused := map[string]float64{}
	for _, f := range families {
		if f.GetName() == "cloudprofiler_refused_total" {
			for _, m := range f.GetMetric() {
				refused[m.GetLabel()[0].GetValue()] = m.GetCounter().GetValue()
			}
		}
	}
	if len(refused) != len(control.Reasons) ||
		refused[string(control.ReasonUnregistered)] != 1 ||
		refused[string(control.ReasonKey)] != 0 {
		t.Errorf("refused: %v", refused)
	}
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}
