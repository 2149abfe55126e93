package explore

import (
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"net"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"
)

// page is a file that the command "make web" builds from web/. A test checks that it was built from
// the present source.
//
//go:embed page.html
var page []byte

// maxBusy is the largest number of answers that the server makes at the same time. It limits the
// memory.
const maxBusy = 4

// Handler serves a page that shows the indexes in the given order. It answers a request only if the
// header Host of the request contains an IP address, localhost, the machine's name or one of the
// given names. So a foreign page cannot read the indexes, even if its owner makes a name point to
// this server (DNS rebinding). The caller keeps the indexes open.
func Handler(indexes []*Index, names ...string) http.Handler {
	h := &handler{indexes: indexes, busy: make(chan struct{}, maxBusy)}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /{$}", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		w.Write(page)
	})
	mux.HandleFunc("GET /favicon.ico", func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusNoContent) // browsers ask for an icon
	})
	mux.HandleFunc("GET /runs", func(w http.ResponseWriter, _ *http.Request) {
		all := []*Meta{}
		for _, x := range indexes {
			all = append(all, &x.Meta)
		}
		reply(w, all, nil)
	})
	mux.HandleFunc("GET /runs/{run}/report", h.report)
	for what, answer := range answers {
		mux.HandleFunc("GET /runs/{run}/"+what, func(w http.ResponseWriter, r *http.Request) {
			h.answer(w, r, answer)
		})
	}
	names = append(names, "localhost")
	if host, err := os.Hostname(); err == nil {
		names = append(names, host)
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !isTrusted(r, names) {
			http.Error(w, "this address is served under the machine's own names only",
				http.StatusForbidden)
			return
		}
		for _, header := range [][2]string{
			{"X-Content-Type-Options", "nosniff"}, {"Cache-Control", "no-store"},
			{"Cross-Origin-Resource-Policy", "same-origin"}, {"X-Frame-Options", "DENY"},
			{"Referrer-Policy", "no-referrer"},
		} {
			w.Header().Set(header[0], header[1])
		}
		mux.ServeHTTP(w, r)
	})
}

// isTrusted reports whether a request comes from the server's own page, or from a user who typed
// the address.
func isTrusted(r *http.Request, names []string) bool {
	host := r.Host
	if h, _, err := net.SplitHostPort(host); err == nil {
		host = h
	}
	host = strings.Trim(host, "[]")
	if net.ParseIP(host) == nil && !slices.ContainsFunc(names, func(n string) bool {
		return strings.EqualFold(n, host)
	}) {
		return false
	}
	if origin := r.Header.Get("Origin"); origin != "" && origin != "http://"+r.Host {
		return false
	}
	site := r.Header.Get("Sec-Fetch-Site")
	return site != "cross-site" || r.URL.Path == "/" // another page may contain a link to this page
}

type handler struct {
	indexes []*Index
	busy    chan struct{}
}

// question is one request for data, while the server answers it.
type question struct {
	*Index
	r    *http.Request
	span Range
	err  error
}

// errBadRequest is the error for a request with missing or wrong parameters.
var errBadRequest = errors.New("bad request")

func (q *question) fail(format string, args ...any) {
	if q.err == nil {
		q.err = fmt.Errorf(format+": %w", append(args, errBadRequest)...)
	}
}

// numberParameter returns a parameter, which must lie between two limits. If it is missing, the
// method numberParameter returns the given default.
func (q *question) numberParameter(name string, otherwise, least, most int64) int64 {
	text := q.r.FormValue(name)
	if text == "" {
		return otherwise
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || n < least || n > most {
		q.fail("%s %q: give a number from %d to %d", name, text, least, most)
		return otherwise
	}
	return n
}

// numbersParameter returns a parameter that lists numbers below a limit.
func (q *question) numbersParameter(name string, below int) (all []int) {
	for text := range strings.SplitSeq(q.r.FormValue(name), ",") {
		n, err := strconv.Atoi(text)
		if err != nil || n < 0 || n >= below || len(all) == maxShown {
			q.fail("%s %.80q: give at most %d numbers below %d", name, q.r.FormValue(name),
				maxShown, below)
			break
		}
		all = append(all, n)
	}
	return all
}

func (q *question) lane() int {
	return int(q.numberParameter("lane", 0, 0, int64(len(q.Meta.Lanes))-1))
}

func (q *question) ofSpan() int {
	if len(q.Meta.Spans) == 0 {
		q.fail("the run has no spans")
		return 0
	}
	return int(q.numberParameter("span", 0, 0, int64(len(q.Meta.Spans))-1))
}

func (q *question) buckets() int { return int(q.numberParameter("buckets", 240, 1, maxBuckets)) }

// maxShown is the largest number of lanes or JVMs in one answer.
const maxShown = 64

// answers maps the last part of a request's path to the function that answers the request.
var answers = map[string]func(*question) (any, error){
	"lanes": func(q *question) (any, error) {
		return q.Lanes(q.numbersParameter("lanes", len(q.Meta.Lanes)), q.span, q.buckets())
	},
	"pauses": func(q *question) (any, error) {
		if len(q.Meta.JVMs) == 0 {
			return []Pauses{}, nil
		}
		return q.Pauses(q.numbersParameter("jvms", len(q.Meta.JVMs)), q.span)
	},
	"latency": func(q *question) (any, error) {
		span, buckets := q.ofSpan(), q.buckets()
		if q.err != nil {
			return nil, q.err
		}
		return q.Latency(span, q.span, buckets)
	},
	"spread": func(q *question) (any, error) {
		span := q.ofSpan()
		if q.err != nil {
			return nil, q.err
		}
		return q.Spread(span, q.span)
	},
	"queue": func(q *question) (any, error) {
		span := q.ofSpan()
		if q.err != nil {
			return nil, q.err
		}
		return q.Queue(span, q.span)
	},
	"longest": func(q *question) (any, error) {
		span := q.ofSpan()
		lo := q.numberParameter("lo", math.MinInt64, math.MinInt64, math.MaxInt64)
		hi := q.numberParameter("hi", math.MaxInt64, math.MinInt64, math.MaxInt64)
		if q.err != nil {
			return nil, q.err
		}
		return q.Longest(span, q.span, lo, hi)
	},
	"ended": func(q *question) (any, error) {
		lane := q.lane()
		if q.err != nil || len(q.Meta.Lanes) == 0 {
			return nil, q.err
		}
		return q.Ended(lane, q.span)
	},
	"tuple": func(q *question) (any, error) {
		text := q.r.FormValue("id")
		id, err := strconv.ParseUint(text, 0, 64)
		if err != nil {
			q.fail("id %.40q: ids are numbers from 0 to 2^64-1: give one, as 17 or 0x11", text)
			return nil, q.err
		}
		found, more, err := q.Find(id)
		return struct {
			Tuples []Path `json:"tuples"`
			More   bool   `json:"more"`
		}{found, more}, err
	},
}

func (h *handler) index(w http.ResponseWriter, r *http.Request) *Index {
	n, err := strconv.Atoi(r.PathValue("run"))
	if err != nil || n < 0 || n >= len(h.indexes) {
		http.Error(w, fmt.Sprintf("no run %.40q: there are %d", r.PathValue("run"),
			len(h.indexes)), http.StatusNotFound)
		return nil
	}
	return h.indexes[n]
}

func (h *handler) answer(w http.ResponseWriter, r *http.Request,
	make func(*question) (any, error)) {
	x := h.index(w, r)
	if x == nil {
		return
	}
	select {
	case h.busy <- struct{}{}:
		defer func() { <-h.busy }()
	case <-r.Context().Done():
		return // the client has gone
	}
	q := &question{Index: x, r: r}
	length := int64(min(x.Meta.Length_cycles, math.MaxInt64/2))
	from := q.numberParameter("from", 0, math.MinInt64/2, math.MaxInt64/2)
	to := q.numberParameter("to", length, math.MinInt64/2, math.MaxInt64/2)
	if from > to {
		q.fail("from %d, to %d: the first is after the second", from, to)
	}
	q.span = Range{moveReading(x.zero(), from), moveReading(x.zero(), to)}
	answer, err := any(nil), q.err
	if err == nil {
		if answer, err = make(q); q.err != nil {
			err = q.err
		}
	}
	reply(w, answer, err)
}

func (h *handler) report(w http.ResponseWriter, r *http.Request) {
	x := h.index(w, r)
	if x == nil {
		return
	}
	html, err := x.Page()
	if err != nil {
		reply(w, nil, err)
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.Write(html)
}

func reply(w http.ResponseWriter, answer any, err error) {
	status := http.StatusOK
	if err != nil {
		status = http.StatusInternalServerError
		if errors.Is(err, errBadRequest) {
			status = http.StatusBadRequest
		}
		text := err.Error()
		if errors.Is(err, errDamaged) {
			text += ": remove it and start again, and it is made anew"
		}
		answer = map[string]string{"error": text}
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	json.NewEncoder(w).Encode(answer)
}

// Serve serves until the context ends. Then it waits a moment for the answers that are still being
// made.
func Serve(ctx context.Context, l net.Listener, h http.Handler) error {
	s := &http.Server{Handler: h, ReadHeaderTimeout: 10 * time.Second,
		WriteTimeout: time.Minute, IdleTimeout: 2 * time.Minute, MaxHeaderBytes: 64 << 10}
	done := make(chan error, 1)
	go func() { done <- s.Serve(l) }()
	select {
	case err := <-done:
		return fmt.Errorf("serve %s: %w", l.Addr(), err)
	case <-ctx.Done():
	}
	last, cancel := context.WithTimeout(context.WithoutCancel(ctx), 3*time.Second)
	defer cancel()
	if err := s.Shutdown(last); err != nil {
		s.Close()
	}
	<-done
	return nil
}
