package export

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// receiver answers each request with the next of the given answers. Once it has given all of them,
// it repeats the last answer.
func receiver(t *testing.T, answers ...func(http.ResponseWriter)) (*Endpoint, *[]string) {
	t.Helper()
	var got []string
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil || r.Method != http.MethodPost || r.URL.Path != "/v1/traces" ||
			r.Header.Get("Content-Type") != "application/json" {
			t.Errorf("%s %s of %q, %v", r.Method, r.URL, r.Header.Get("Content-Type"), err)
		}
		got = append(got, string(body))
		answers[min(len(got), len(answers))-1](w)
	}))
	t.Cleanup(server.Close)
	e, err := newEndpoint(t.Context(), server.URL, func(string) {})
	if err != nil {
		t.Fatal(err)
	}
	return e, &got
}

func status(code int, headers ...string) func(http.ResponseWriter) {
	return func(w http.ResponseWriter) {
		for i := 0; i < len(headers); i += 2 {
			w.Header().Set(headers[i], headers[i+1])
		}
		w.WriteHeader(code)
		fmt.Fprint(w, `{"message":"because\nof this"}`)
	}
}

func says(body string) func(http.ResponseWriter) {
	return func(w http.ResponseWriter) { fmt.Fprint(w, body) }
}

// The receiver's answer decides whether a request is sent again, and when.
func TestSendTriesAgain(t *testing.T) {
	later := time.Now().Add(time.Hour).UTC().Format(http.TimeFormat)
	ok := says("{}")
	for name, c := range map[string]struct {
		answers []func(http.ResponseWriter)
		sent    int
		waits   []time.Duration // 0: any wait below 40 s
		err     string
	}{
		"taken":                {[]func(http.ResponseWriter){ok}, 1, nil, ""},
		"taken without a word": {[]func(http.ResponseWriter){says("")}, 1, nil, ""},
		"busy, with seconds": {[]func(http.ResponseWriter){status(503, "Retry-After", "7"),
			status(429, "Retry-After", "3"), ok}, 3, []time.Duration{7 * time.Second,
			3 * time.Second}, ""},
		"behind a busy proxy": {[]func(http.ResponseWriter){status(502), status(504), ok}, 3,
			[]time.Duration{0, 0}, ""},
		"busy for ever": {[]func(http.ResponseWriter){status(503)}, maxTries,
			make([]time.Duration, maxTries-1), "it answered 503 Service Unavailable: " +
				`"because\nof this", 6 times; it took 0 earlier requests`},
		"busy for too long": {[]func(http.ResponseWriter){status(503, "Retry-After", later)}, 1,
			nil, ": send the run again then"},
		"wrong request": {[]func(http.ResponseWriter){status(400)}, 1, nil,
			`it answered 400 Bad Request: "because\nof this"`},
		"an error of the server's": {[]func(http.ResponseWriter){status(500)}, 1, nil, "500"},
		"another path": {[]func(http.ResponseWriter){status(404)}, 1, nil,
			"its path for traces is another one; most receivers have /v1/traces"},
		"moved": {[]func(http.ResponseWriter){status(301, "Location", "http://there/")}, 1, nil,
			`give the address "http://there/" instead`},
	} {
		t.Run(name, func(t *testing.T) {
			e, got := receiver(t, c.answers...)
			var waits, told = []time.Duration{}, 0
			e.told = func(string) { told++ }
			e.wait = func(_ context.Context, d time.Duration) error {
				waits = append(waits, d)
				return nil
			}
			err := e.Send([]byte("spans"))
			if (err == nil) != (c.err == "") || err != nil &&
				(!strings.Contains(err.Error(), c.err) ||
					!strings.Contains(err.Error(), e.url.Host)) {
				t.Errorf("it says %v, want %q", err, c.err)
			}
			if len(*got) != c.sent || slices.ContainsFunc(*got, func(b string) bool {
				return b != "spans"
			}) {
				t.Errorf("sent %q, want it %d times", *got, c.sent)
			}
			if len(waits) != len(c.waits) || told != len(waits) {
				t.Fatalf("waits %v, want %v; %d told", waits, c.waits, told)
			}
			for i, want := range c.waits {
				if want != 0 && waits[i] != want || want == 0 && (waits[i] < firstPause<<i ||
					waits[i] > firstPause<<i*5/4) {
					t.Errorf("wait %d is %v, want %v", i, waits[i], want)
				}
			}
			if err := e.Close(); err != nil {
				t.Error(err)
			}
		})
	}
}

// Spans that a receiver refuses are counted, and not sent again.
func TestSendCountsRefusedSpans(t *testing.T) {
	e, got := receiver(t, says(`{"partialSuccess":{"rejectedSpans":"3","errorMessage":"too old"}}`),
		says(`{"partialSuccess":{"rejectedSpans":4,"errorMessage":"other"}}`),
		says(`{"partialSuccess":{"errorMessage":"a warning"}}`))
	for range 3 {
		if err := e.Send([]byte("x")); err != nil {
			t.Fatal(err)
		}
	}
	err := e.Close()
	if !errors.Is(err, ErrRefused) || !strings.Contains(err.Error(), `7 of them`) ||
		!strings.Contains(err.Error(), "too old") || len(*got) != 3 {
		t.Errorf("%v after %d requests", err, len(*got))
	}
}

// Send does not wait for a receiver that never answered. It waits for one that answered before.
func TestSendWithoutReceiver(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		io.Copy(io.Discard, r.Body)
	}))
	address := strings.Replace(server.URL, "http://", "http://user:secret@", 1)
	e, err := NewEndpoint(t.Context(), address, func(string) {})
	if err != nil {
		t.Fatal(err)
	}
	server.Close()
	waits := 0
	e.wait = func(context.Context, time.Duration) error {
		waits++
		return nil
	}
	if err := e.Send([]byte("x")); err == nil || waits != maxTries-1 {
		t.Errorf("%v after %d waits", err, waits)
	}
	_, err = NewEndpoint(t.Context(), address, func(string) { t.Error("it waits") })
	if err == nil || !strings.Contains(err.Error(), "is an OTLP receiver") ||
		strings.Contains(err.Error(), "secret") {
		t.Errorf("without a receiver it says %v", err)
	}
	for _, bad := range []string{"", "ftp://x", "http://", "http://%", "collector:4318"} {
		if _, err := NewEndpoint(t.Context(), bad, nil); err == nil ||
			!strings.Contains(err.Error(), "http://collector:4318/v1/traces") {
			t.Errorf("address %q: %v", bad, err)
		}
	}
}

// A receiver that does not answer in time gets the request again.
func TestSendToASlowReceiver(t *testing.T) {
	done := make(chan struct{})
	var requests atomic.Int32
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if requests.Add(1) > 1 {
			<-done
		}
	}))
	defer server.Close()
	defer close(done)
	var told []string
	e, err := NewEndpoint(t.Context(), server.URL, func(what string) { told = append(told, what) })
	if err != nil {
		t.Fatal(err)
	}
	e.client.Timeout = 10 * time.Millisecond
	e.wait = func(context.Context, time.Duration) error { return nil }
	err = e.Send([]byte("x"))
	if want := "no answer within 10ms, 6 times; it took 0 earlier requests"; err == nil ||
		!strings.Contains(err.Error(), want) || len(told) != maxTries-1 {
		t.Errorf("it says %v, want %q; told %q", err, want, told)
	}
}

// A signal ends a pause.
func TestSendIsStopped(t *testing.T) {
	stopped := errors.New("stopped by a signal")
	ctx, cancel := context.WithCancelCause(t.Context())
	e, _ := receiver(t, status(503, "Retry-After", "200"))
	e.ctx, e.told = ctx, func(string) { cancel(stopped) }
	if err := e.Send([]byte("x")); !errors.Is(err, stopped) {
		t.Error(err)
	}
	if err := e.Send([]byte("x")); !errors.Is(err, stopped) { // a signal also ends a request
		t.Error(err)
	}
}
