package explore

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"reflect"
	"regexp"
	"strings"
	"testing"

	"github.com/cloudprofiler/cloudprofiler/internal/seed"
)

// ask sends a handler a request, as a browser on this machine does.
func ask(h http.Handler, url string, change func(*http.Request)) (int, string, http.Header) {
	r := httptest.NewRequest("GET", url, nil)
	r.Host = "127.0.0.1:7070"
	if change != nil {
		change(r)
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w.Code, w.Body.String(), w.Header()
}

// header returns a function that sets one header of a request.
func header(name, value string) func(*http.Request) {
	return func(r *http.Request) { r.Header.Set(name, value) }
}

// If the owner of a foreign page makes a name point to this server, the page still gets nothing.
func TestForeignPagesGetNothing(t *testing.T) {
	h := Handler(nil, "profiler.example")
	for _, c := range []struct {
		name   string
		change func(*http.Request)
		want   int
	}{
		{"an address", nil, http.StatusOK},
		{"an address of version 6", func(r *http.Request) { r.Host = "[::1]:80" }, http.StatusOK},
		{"this machine's name", func(r *http.Request) { r.Host = "LOCALHOST" }, http.StatusOK},
		{"a given name", func(r *http.Request) { r.Host = "profiler.example:7070" }, http.StatusOK},
		{"a foreign name", func(r *http.Request) { r.Host = "evil.example:7070" },
			http.StatusForbidden},
		{"no name", func(r *http.Request) { r.Host = "" }, http.StatusForbidden},
		{"a longer name", func(r *http.Request) { r.Host = "localhost.evil.example" },
			http.StatusForbidden},
		{"its own origin", header("Origin", "http://127.0.0.1:7070"), http.StatusOK},
		{"a foreign origin", header("Origin", "http://evil.example"), http.StatusForbidden},
		{"a foreign page", header("Sec-Fetch-Site", "cross-site"), http.StatusForbidden},
		{"the page itself", header("Sec-Fetch-Site", "same-origin"), http.StatusOK},
		{"something to write", func(r *http.Request) { r.Method = "POST" },
			http.StatusMethodNotAllowed},
	} {
		if got, _, header := ask(h, "/runs", c.change); got != c.want {
			t.Errorf("%s: %d, want %d", c.name, got, c.want)
		} else if got == http.StatusOK && header.Get("X-Content-Type-Options") != "nosniff" {
			t.Errorf("%s: headers %v", c.name, header)
		}
	}
	if got, _, _ := ask(h, "/", header("Sec-Fetch-Site", "cross-site")); got != http.StatusOK {
		t.Errorf("a link to the page gives %d", got)
	}
}

// Each valid question gets an answer of limited size. Each invalid question gets an error that says
// what is wrong.
func TestAnswersAndErrors(t *testing.T) {
	j := aJob(t, seed.Random(t), 20_000)
	h := Handler([]*Index{j.Index})
	for what := range answers {
		url := "/runs/0/" + what + "?lanes=0,1,2,3,4,5&span=0&id=17&buckets=512"
		code, body, _ := ask(h, url, nil)
		if code != http.StatusOK || !json.Valid([]byte(body)) || len(body) > 1<<20 {
			t.Errorf("%s: %d, %d bytes, %.100s", url, code, len(body), body)
		}
	}
	lanes := strings.Repeat("0,", maxShown) + "0"
	for url, want := range map[string]string{
		"/runs/1/lanes?lanes=0":                 "no run",
		"/runs/-1/lanes?lanes=0":                "no run",
		"/runs/0/lanes":                         "give at most",
		"/runs/0/lanes?lanes=99":                "give at most",
		"/runs/0/lanes?lanes=" + lanes:          "give at most",
		"/runs/0/lanes?lanes=0&buckets=0":       "give a number from 1",
		"/runs/0/lanes?lanes=0&from=5&to=4":     "the first is after",
		"/runs/0/latency?span=99":               "span",
		"/runs/0/latency?span=-1":               "span",
		"/runs/0/latency?span=x":                "span",
		"/runs/0/latency?from=1e5":              "from",
		"/runs/0/latency?buckets=100000":        "buckets",
		"/runs/0/longest?lo=x":                  "lo",
		"/runs/0/ended?lane=77":                 "lane",
		"/runs/0/tuple?id=-1":                   "ids are numbers from 0 to 2^64-1",
		"/runs/0/tuple?id=99999999999999999999": "ids are numbers from 0 to 2^64-1",
		"/runs/0/nothing":                       "404",
	} {
		code, body, _ := ask(h, url, nil)
		if code/100 != 4 || !strings.Contains(body, want) {
			t.Errorf("%s: %d, %.100q, want %q", url, code, body, want)
		}
	}
	// The server accepts any range: outside of the run there are no rows.
	for _, r := range [][2]int64{{-1 << 62, 1<<62 - 1}, {-500, -100}, {1 << 60, 1 << 61}, {7, 7}} {
		for what := range answers {
			url := fmt.Sprintf("/runs/0/%s?lanes=0&id=1&from=%d&to=%d", what, r[0], r[1])
			if code, body, _ := ask(h, url, nil); code != http.StatusOK {
				t.Errorf("%s: %d, %s", url, code, body)
			}
		}
	}
	if _, body, _ := ask(h, "/runs/0/report", nil); body != "<p>report" {
		t.Errorf("the report is %q", body)
	}
}

// When its context ends, the server stops and closes its listener.
func TestServeEnds(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- Serve(ctx, l, Handler(nil)) }()
	response, err := http.Get("http://" + l.Addr().String() + "/runs")
	if err != nil {
		t.Fatal(err)
	}
	response.Body.Close()
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
	http.DefaultClient.CloseIdleConnections()
	if _, err := net.Dial("tcp", l.Addr().String()); err == nil {
		t.Error("somebody still listens")
	}
}

// The page may only send requests to its own server, and does not treat data as HTML.
func TestPagePolicy(t *testing.T) {
	text := string(page)
	for _, want := range []string{"default-src 'none'", "connect-src 'self'",
		"script-src 'sha256-"} {
		if !strings.Contains(text, want) {
			t.Errorf("the page's policy lacks %q", want)
		}
	}
	for _, never := range []string{"innerHTML", "unsafe-", "eval(", "XMLHttpRequest", "WebSocket"} {
		if strings.Contains(text, never) {
			t.Errorf("the page has %q", never)
		}
	}
}

var field = regexp.MustCompile(`(?m)^(?:export interface \w+ [^{]*\{ | +)(\w+)\??:|; (\w+)\??:`)

// The page's TypeScript declares every field that the server writes.
func TestTypeScriptKnowsTheFields(t *testing.T) {
	text, err := os.ReadFile("../web/src/explore-data.ts")
	if err != nil {
		t.Fatal(err)
	}
	known := map[string]bool{"version": true}
	for _, found := range field.FindAllStringSubmatch(string(text), -1) {
		known[found[1]+found[2]] = true
	}
	data, err := os.ReadFile("../web/src/data.ts") // Path extends Tuple, which is declared there
	if err != nil {
		t.Fatal(err)
	}
	for _, found := range field.FindAllStringSubmatch(string(data), -1) {
		known[found[1]+found[2]] = true
	}
	var walk func(reflect.Type)
	seen := map[reflect.Type]bool{}
	walk = func(of reflect.Type) {
		switch of.Kind() {
		case reflect.Slice, reflect.Array, reflect.Pointer:
			walk(of.Elem())
		case reflect.Struct:
			if seen[of] {
				return
			}
			seen[of] = true
			for i := range of.NumField() {
				f := of.Field(i)
				name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
				if !f.Anonymous && !known[name] {
					t.Errorf("%v.%s: the page knows no field %q", of, f.Name, name)
				}
				walk(f.Type)
			}
		}
	}
	for _, of := range []any{Meta{}, LaneRows{}, Latencies{}, Spread{}, Listed{}, Path{},
		Depths{}} {
		walk(reflect.TypeOf(of))
	}
}
