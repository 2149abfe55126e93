package answers

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// spansIn counts the spans of a request, and the traces that they belong to.
func spansIn(t *testing.T, request string, traces map[string]bool) (n int) {
	t.Helper()
	var r struct {
		ResourceSpans []struct {
			ScopeSpans []struct{ Spans []struct{ TraceID string } }
		}
	}
	if err := json.Unmarshal([]byte(request), &r); err != nil {
		t.Fatal(err)
	}
	for _, group := range r.ResourceSpans {
		for _, s := range group.ScopeSpans[0].Spans {
			traces[s.TraceID] = true
			n++
		}
	}
	return n
}

// An export is written to a file. If a later export to the same file fails, the file stays as it
// was.
func TestExportToFile(t *testing.T) {
	run := aRun(t, "filed")
	file := filepath.Join(t.TempDir(), "run.otlp")
	code, out, stderr := cprof("export", run, "--otlp", file, "--slowest", "5", "--reference", "B")
	want := file + ": 20 spans of the 5 slowest of 2000 tuples, in cycles of node B\n"
	if code != 0 || out != want {
		t.Errorf("exit code %d, %s\n%q, want\n%q", code, stderr, out, want)
	}
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	traces := map[string]bool{}
	if n := spansIn(t, string(text), traces); n != 20 || len(traces) != 5 {
		t.Errorf("%d spans of %d traces", n, len(traces))
	}
	if code, _, _ := cprof("export", run, "--otlp", file, "--reference", "Z"); code != 1 {
		t.Errorf("exit code %d", code)
	}
	if code, _, _ := cprof("export", run, "--otlp", file, "--id", "999999"); code != 1 {
		t.Errorf("exit code %d", code)
	}
	if after, err := os.ReadFile(file); err != nil || string(after) != string(text) {
		t.Errorf("the file has %d bytes, and had %d; %v", len(after), len(text), err)
	}
	if rest, err := os.ReadDir(filepath.Dir(file)); err != nil || len(rest) != 1 {
		t.Errorf("beside the file there is %v, %v", rest, err)
	}
	if code, _, stderr := cprof("export", run, "--otlp", filepath.Join(file, "x")); code != 1 ||
		!strings.Contains(stderr, "not a directory") {
		t.Errorf("exit code %d, %s", code, stderr)
	}
}

// An export goes to a receiver. If the receiver refuses spans, the export is partial.
func TestExportToReceiver(t *testing.T) {
	run := aRun(t, "sent")
	traces, spans, answer := map[string]bool{}, 0, "{}"
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if user, password, _ := r.BasicAuth(); err != nil || user != "me" || password != "secret" ||
			r.URL.Path != "/v1/traces" {
			t.Errorf("%s of %q, %v", r.URL, user, err)
		}
		spans += spansIn(t, string(body), traces)
		fmt.Fprint(w, answer)
	}))
	defer server.Close()
	address := strings.Replace(server.URL, "//", "//me:secret@", 1)
	redacted := strings.Replace(server.URL, "//", "//me:xxxxx@", 1)
	code, out, stderr := cprof("export", run, "--otlp", address, "--reference", "A")
	want := redacted + ": 7988 spans of 2000 tuples, in cycles of node A\n"
	if code != 0 || out != want || spans != 7988 || len(traces) != 2000 {
		t.Errorf("exit code %d, %s\n%q, want\n%q; %d spans of %d traces", code, stderr, out, want,
			spans, len(traces))
	}
	answer = `{"partialSuccess":{"rejectedSpans":"2","errorMessage":"too old"}}`
	code, out, stderr = cprof("export", run, "--otlp", address, "--reference", "A", "--id", "1-3")
	if code != 3 || !strings.Contains(out, "12 spans of 3 tuples") ||
		!strings.Contains(stderr, `"too old"`) || strings.Contains(out+stderr, "secret") {
		t.Errorf("exit code %d, %s\n%s", code, stderr, out)
	}
	server.Close()
	code, out, stderr = cprof("export", run, "--otlp", address)
	if code != 1 || out != "" || !strings.Contains(stderr, "is an OTLP receiver") {
		t.Errorf("exit code %d, %s\n%s", code, stderr, out)
	}
}

// If flags are wrong, the error says what is wrong and what to give instead.
func TestExportFlags(t *testing.T) {
	for _, c := range []struct {
		flags, says string
	}{
		{"--otlp x --as csv", "--otlp and --as: choose one"},
		{"--otlp=", "give a file, or an address"},
		{"--otlp localhost:4318", "give an address as http://localhost:4318, or a file as " +
			"./localhost:4318"},
		{"--otlp ftp://x", `"ftp://x": give the address of a receiver with http:// or https://`},
		{"--otlp grpc://me:secret@x:4317", `"grpc://me:xxxxx@x:4317": give`},
		{"--otlp HTTP://x", "with http:// or https://, or a file as ./NAME"},
		{"--slowest 0 --as perfetto", "give 1 or more"},
		{"--slowest -1 --as perfetto", "give 0 or more"},
		{"--slowest 5", "for Perfetto and OTLP only: add --as perfetto or --otlp"},
	} {
		code, out, stderr := cprof(append([]string{"export", "nowhere"},
			strings.Fields(c.flags)...)...)
		if code != 2 || out != "" || !strings.Contains(stderr, c.says) {
			t.Errorf("%s: exit code %d, %s, want %q", c.flags, code, stderr, c.says)
		}
	}
}

// cprof export lists the files that it wrote. The list says which tuples a trace shows.
func TestExportSaysWhatATraceShows(t *testing.T) {
	run := aRun(t, "shown")
	for flags, says := range map[string]string{
		"":            "all 2000 tuples\n",
		"--slowest 7": "the 7 slowest of 2000 tuples\n",
		"--id 1-30":   "all 30 tuples\n",
	} {
		code, out, stderr := cprof(append([]string{"export", run, "--as", "perfetto"},
			strings.Fields(flags)...)...)
		if code != 0 || !strings.HasSuffix(out, "trace.perfetto-trace: "+says) {
			t.Errorf("%s: exit code %d, %s\n%s, want %q", flags, code, stderr, out, says)
		}
	}
}
