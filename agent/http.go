package agent

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/cloudprofiler/cloudprofiler/handlertable"
	"github.com/cloudprofiler/cloudprofiler/runs"
	"github.com/cloudprofiler/cloudprofiler/tscclient"
)

// SocketName is the name of the agent's socket in the directory of rings. Only the directory's
// owner may connect, because the agent accepts orders at this socket.
const SocketName = "agent.sock"

// VersionHeader is the header with the version of the orders and of the status. Requests and
// answers have this header. A request or an answer without it has version 1.
const (
	VersionHeader = "Cloudprofiler-Version"
	ordersVersion = 1
)

// The agent serves these paths. Paths below /do/ are orders, which require POST. The agent accepts
// orders only at its socket.
const (
	PathStatus     = "/status"
	PathStatusJSON = "/status.json"
	PathMetrics    = "/metrics"
	PathSnapshot   = "/do/snapshot" // with the query ?channels=PATTERN
	PathFlush      = "/do/flush"
	PathStart      = "/do/capture/start"
	PathStop       = "/do/capture/stop"
	PathFind       = "/do/find"      // with the query ?fact=PATTERN
	PathHot        = "/do/hot"       // with the query ?by=KIND
	PathOpenRun    = "/do/run/open"  // with the query ?name=NAME
	PathCloseRun   = "/do/run/close" // with the query ?name=NAME
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

// listen serves the socket. If an address is configured, it also serves that address.
func (a *Agent) listen(ctx context.Context) error {
	socket, made, err := a.openSocket()
	if err != nil {
		return err
	}
	server := a.newServer(true)
	a.serve(server, socket)
	a.running.Go(func() { a.keepSocket(ctx, server, socket, made) })
	if a.c.Listen == "" {
		return nil
	}
	l, err := net.Listen("tcp", a.c.Listen)
	if err != nil {
		return fmt.Errorf("serve metrics and status (listen): %w", err)
	}
	a.address = l.Addr()
	a.serve(a.newServer(false), l)
	return nil
}

// serve answers on a listener until the listener or the server is closed.
func (a *Agent) serve(server *http.Server, l net.Listener) {
	a.running.Go(func() {
		err := server.Serve(bound(l))
		if !errors.Is(err, http.ErrServerClosed) && !errors.Is(err, net.ErrClosed) {
			a.notify(fmt.Errorf("serve %s: %w", l.Addr(), err))
		}
	})
}

// newServer makes an HTTP server. If orders is true, the server accepts orders.
func (a *Agent) newServer(orders bool) *http.Server {
	server := newServer(a.mux(orders))
	a.servers = append(a.servers, server)
	return server
}

func newServer(h http.Handler) *http.Server {
	return &http.Server{Handler: withVersion(h), ReadHeaderTimeout: 5 * time.Second,
		ReadTimeout: 10 * time.Second, WriteTimeout: time.Minute, IdleTimeout: time.Minute,
		MaxHeaderBytes: 1 << 14}
}

// withVersion puts the version into every answer, and refuses requests of other versions.
func withVersion(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set(VersionHeader, strconv.Itoa(ordersVersion))
		if err := checkVersion(r.Header); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		h.ServeHTTP(w, r)
	})
}

// checkVersion checks the version of a request or an answer.
func checkVersion(h http.Header) error {
	v := h.Get(VersionHeader)
	if v == "" || v == strconv.Itoa(ordersVersion) {
		return nil
	}
	return fmt.Errorf("version %q of the messages between agent and cprof: this program knows "+
		"version %d: install the same release of both, and restart the agent", v, ordersVersion)
}

// mux returns the handler of all paths. If orders is true, the paths of orders are among them.
func (a *Agent) mux(orders bool) *http.ServeMux {
	mux := http.NewServeMux()
	mux.HandleFunc("GET "+PathStatusJSON,
		func(w http.ResponseWriter, _ *http.Request) { answer(w, a.Status()) })
	mux.HandleFunc("GET "+PathStatus, func(w http.ResponseWriter, r *http.Request) {
		if strings.Contains(r.Header.Get("Accept"), "application/json") {
			answer(w, a.Status())
			return
		}
		s := a.Status()
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		w.Header().Set("Content-Security-Policy", "default-src 'none'; style-src 'unsafe-inline'")
		w.Write(statusPage(&s))
	})
	mux.Handle("GET "+PathMetrics,
		promhttp.HandlerFor(a.registry(), promhttp.HandlerOpts{MaxRequestsInFlight: 3}))
	mux.Handle("GET /{$}", http.RedirectHandler(PathStatus, http.StatusFound))
	if !orders {
		return mux
	}
	mux.HandleFunc("POST "+PathSnapshot, func(w http.ResponseWriter, r *http.Request) {
		channels, records, err := a.Snapshot(r.URL.Query().Get("channels"))
		if err != nil {
			refuseWith(w, err)
			return
		}
		answer(w, SnapshotAnswer{channels, records})
	})
	mux.HandleFunc("POST "+PathFlush, func(w http.ResponseWriter, _ *http.Request) {
		if err := a.Flush(); err != nil {
			refuseWith(w, err)
			return
		}
		answer(w, struct{}{})
	})
	mux.HandleFunc("POST "+PathFind, a.serveFind)
	mux.HandleFunc("POST "+PathHot, a.serveHot)
	for path, order := range map[string]func() error{
		PathStart: a.StartCapture, PathStop: a.StopCapture,
	} {
		mux.HandleFunc("POST "+path, func(w http.ResponseWriter, _ *http.Request) {
			if err := order(); err != nil {
				refuseWith(w, err)
				return
			}
			answer(w, a.CaptureStatus())
		})
	}
	run := func(do func(string) (RunState, error)) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			s, err := do(r.URL.Query().Get("name"))
			if err != nil {
				refuseWith(w, err)
				return
			}
			directory := filepath.Join(a.c.State, a.runPath(s.Name))
			answer(w, RunAnswer{s.Name, s.Closed, s.Channels, directory, s.Missing})
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

// refuseWith answers with the text of an error.
func refuseWith(w http.ResponseWriter, err error) {
	code := http.StatusInternalServerError
	switch {
	case errors.Is(err, ErrNoRun):
		code = http.StatusNotFound
	case errors.Is(err, ErrRunOpen), errors.Is(err, ErrRunClosed),
		errors.Is(err, tscclient.ErrNoGraph), errors.Is(err, errNoServer),
		errors.Is(err, ErrNoCapture):
		code = http.StatusConflict
	case errors.Is(err, runs.ErrName), errors.Is(err, handlertable.ErrTable):
		code = http.StatusBadRequest
	}
	http.Error(w, err.Error(), code)
}
