package agent

import (
	"context"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/cloudprofiler/cloudprofiler/ring"
)

// An agent and a cprof of different versions refuse each other, and name the versions. Messages
// without a version, as old programs send them, are accepted.
func TestOrdersSayTheirVersion(t *testing.T) {
	a := startTest(t, testConfig(t))
	for version, want := range map[string]int{
		"": http.StatusOK, "1": http.StatusOK, "2": http.StatusBadRequest,
	} {
		l, err := Connect(a.c.Rings)
		if err != nil {
			t.Fatal(err)
		}
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet,
			"http://agent"+PathStatusJSON, nil)
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set(VersionHeader, version)
		answer, err := l.http.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		answer.Body.Close()
		if answer.StatusCode != want || answer.Header.Get(VersionHeader) != "1" {
			t.Errorf("version %q: %s, %q", version, answer.Status,
				answer.Header.Get(VersionHeader))
		}
	}
}

func TestOrdersOfLaterAgentAreRefused(t *testing.T) {
	rings := filepath.Join(t.TempDir(), "rings")
	if err := ring.MakeDirectory(rings); err != nil {
		t.Fatal(err)
	}
	socket, err := net.Listen("unix", filepath.Join(rings, SocketName))
	if err != nil {
		t.Fatal(err)
	}
	version := "2"
	later := http.Server{Handler: http.HandlerFunc(
		func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set(VersionHeader, version)
			w.Write([]byte("{}"))
		})}
	done := make(chan struct{})
	go func() {
		defer close(done)
		later.Serve(socket)
	}()
	defer func() {
		later.Close()
		<-done
	}()
	l, err := Connect(rings)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := l.Status(context.Background()); err == nil ||
		!strings.Contains(err.Error(), `version "2"`) {
		t.Errorf("the answer of version 2: %v", err)
	}
	version = "1"
	if _, err := l.Status(context.Background()); err != nil {
		t.Error(err)
	}
}

// Old files without a version have the meaning of version 1.
func TestStateWithoutVersionIsRead(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, stateFile),
		[]byte(`{"logs": "logs/000007", "spans": 8}`), 0o600); err != nil {
		t.Fatal(err)
	}
	s, err := readState(dir)
	if err != nil || s.Logs != "logs/000007" || s.Spans != 8 {
		t.Fatalf("%+v, %v", s, err)
	}
	if err := s.write(dir); err != nil {
		t.Fatal(err)
	}
	if s, err = readState(dir); err != nil || s.Version != stateVersion {
		t.Errorf("%+v, %v", s, err)
	}
}
