package agent

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/cloudprofiler/cloudprofiler/handlertable"
	"github.com/cloudprofiler/cloudprofiler/runs"
)

// SocketName is the agent's socket in the directory of rings. Only its owner may connect: it takes orders.
const SocketName = "agent.sock"

// Paths that are served. Those below /do/ are orders: POST, and on the socket alone.
const (
	PathStatus     = "/status"
	PathStatusJSON = "/status.json"
	PathMetrics    = "/metrics"
	PathSnapshot   = "/do/snapshot" // ?channels=PATTERN
	PathFlush      = "/do/flush"
	PathOpenRun    = "/do/run/open"  // ?name=NAME
	PathCloseRun   = "/do/run/close" // ?name=NAME
)

// SnapshotAnswer is the answer to PathSnapshot.
type SnapshotAnswer struct {
	Channels int    `json:"channels"`
	Records  uint64 `json:"records,string"`
}

// RunAnswer is the answer to PathOpenRun and PathCloseRun.
type RunAnswer struct {
	Name      string   `json:"name"`
	Closed    bool     `json:"closed"`
	Channels  int      `json:"channels"`
	Directory string   `json:"directory"`
	Missing   []string `json:"missing,omitempty"`
}

// listen serves the socket, and the address if there is one.
func (a *Agent) listen() error {
	path := filepath.Join(a.c.Rings, SocketName)
	// One is left of an agent that was killed; that no other lives is known by the lock of the directory.
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("make the agent's socket: %w", err)
	}
	socket, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	if err != nil {
		return fmt.Errorf("make the agent's socket: %w: use a shorter path for the rings", err)
	}
	// Until here the directory's mode, 700, keeps others out.
	if err := os.Chmod(path, 0o600); err != nil {
		socket.Close()
		return fmt.Errorf("make the agent's socket: %w", err)
	}
	serve := func(l net.Listener, orders bool) {
		server := newServer(a.mux(orders))
		a.servers = append(a.servers, server)
		a.running.Go(func() {
			if err := server.Serve(l); !errors.Is(err, http.ErrServerClosed) {
				a.notify(fmt.Errorf("serve %s: %w", l.Addr(), err))
			}
		})
	}
	serve(socket, true)
	if a.c.Listen == "" {
		return nil
	}
	l, err := net.Listen("tcp", a.c.Listen)
	if err != nil {
		return fmt.Errorf("serve metrics and status (listen): %w", err)
	}
	a.address = l.Addr()
	serve(l, false)
	return nil
}

func newServer(h http.Handler) *http.Server {
	return &http.Server{Handler: h, ReadHeaderTimeout: 5 * time.Second, ReadTimeout: 10 * time.Second, WriteTimeout: time.Minute, IdleTimeout: time.Minute, MaxHeaderBytes: 1 << 14}
}

// mux has what is served; orders are for who may connect to the socket.
func (a *Agent) mux(orders bool) *http.ServeMux {
	mux := http.NewServeMux()
	mux.HandleFunc("GET "+PathStatusJSON, func(w http.ResponseWriter, _ *http.Request) { answer(w, a.Status()) })
	mux.HandleFunc("GET "+PathStatus, func(w http.ResponseWriter, r *http.Request) {
		if strings.Contains(r.Header.Get("Accept"), "application/json") {
			answer(w, a.Status())
			return
		}
		var b bytes.Buffer
		if err := page.Execute(&b, a.Status()); err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		w.Header().Set("Content-Security-Policy", "default-src 'none'; style-src 'unsafe-inline'")
		w.Write(b.Bytes())
	})
	mux.Handle("GET "+PathMetrics, promhttp.HandlerFor(a.registry(), promhttp.HandlerOpts{MaxRequestsInFlight: 3}))
	mux.Handle("GET /{$}", http.RedirectHandler(PathStatus, http.StatusFound))
	if !orders {
		return mux
	}
	mux.HandleFunc("POST "+PathSnapshot, func(w http.ResponseWriter, r *http.Request) {
		channels, records, err := a.Snapshot(r.URL.Query().Get("channels"))
		if err != nil {
			refuse(w, err)
			return
		}
		answer(w, SnapshotAnswer{channels, records})
	})
	mux.HandleFunc("POST "+PathFlush, func(w http.ResponseWriter, _ *http.Request) {
		if err := a.Flush(); err != nil {
			refuse(w, err)
			return
		}
		answer(w, struct{}{})
	})
	run := func(do func(string) (RunState, error)) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			s, err := do(r.URL.Query().Get("name"))
			if err != nil {
				refuse(w, err)
				return
			}
			answer(w, RunAnswer{s.Name, s.Closed, s.Channels, filepath.Join(a.c.State, a.runPath(s.Name)), s.Missing})
		}
	}
	mux.HandleFunc("POST "+PathOpenRun, run(a.OpenRun))
	mux.HandleFunc("POST "+PathCloseRun, run(a.CloseRun))
	return mux
}

func answer(w http.ResponseWriter, v any) {
	text, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.Write(append(text, '\n'))
}

// refuse answers with the error as text.
func refuse(w http.ResponseWriter, err error) {
	code := http.StatusInternalServerError
	switch {
	case errors.Is(err, ErrNoRun):
		code = http.StatusNotFound
	case errors.Is(err, ErrRunOpen), errors.Is(err, ErrRunClosed):
		code = http.StatusConflict
	case errors.Is(err, runs.ErrName), errors.Is(err, handlertable.ErrTable):
		code = http.StatusBadRequest
	}
	http.Error(w, err.Error(), code)
}
