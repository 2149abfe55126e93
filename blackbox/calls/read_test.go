package calls

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// jaegerSpanJSON returns a span of a Jaeger trace. Times are in microseconds.
func jaegerSpanJSON(id, parent, process, kind string, start, duration int) string {
	refs := "[]"
	if parent != "" {
		refs = fmt.Sprintf(`[{"refType":"CHILD_OF","traceID":"t","spanID":%q}]`, parent)
	}
	return fmt.Sprintf(`{"traceID":"t","spanID":%q,"references":%s,"startTime":%d,"duration":%d,`+
		`"tags":[{"key":"span.kind","type":"string","value":%q}],"processID":%q}`,
		id, refs, start, duration, kind, process)
}

func jaegerTrace(spans ...string) string {
	return `{"traceID":"t","spans":[` + strings.Join(spans, ",") + `],"processes":{` +
		`"p1":{"serviceName":"front"},"p2":{"serviceName":"back"},"p3":{"serviceName":"store"}}}`
}

// read reads text as a file. It returns lines that say what was read.
func read(t *testing.T, format Format, text string) []string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "trace.json")
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	set, err := Read(format, name)
	if err != nil {
		t.Fatal(err)
	}
	return lines(set)
}

func lines(set *Set) (all []string) {
	name := func(place int32) string {
		if place < 0 {
			return "outside"
		}
		return set.Places[place].Program
	}
	moment := func(t int64) string {
		if t == Unknown {
			return "?"
		}
		return fmt.Sprint(t / 1000)
	}
	for i, c := range set.Calls {
		way := ""
		if c.OneWay {
			way = " one-way"
		}
		all = append(all, fmt.Sprintf("%s→%s %s %s %s %s cause %d%s", name(c.Caller),
			name(c.Callee), moment(c.Sent_ns), moment(c.Received_ns), moment(c.Replied_ns),
			moment(c.Got_ns), set.Cause[i], way))
	}
	return all
}

var jaegerCases = map[string]struct {
	text string
	want []string
}{
	"client and server": {
		jaegerTrace(jaegerSpanJSON("a", "", "p1", "server", 100, 900),
			jaegerSpanJSON("b", "a", "p1", "", 150, 700),
			jaegerSpanJSON("c", "b", "p1", "client", 200, 500),
			jaegerSpanJSON("d", "c", "p2", "server", 300, 300)),
		[]string{"outside→front ? 100 1000 ? cause -1", "front→back 200 300 600 700 cause 0"},
	},
	"servers alone": {
		jaegerTrace(jaegerSpanJSON("a", "", "p1", "", 100, 900),
			jaegerSpanJSON("b", "a", "p2", "", 150, 700),
			jaegerSpanJSON("c", "b", "p3", "", 200, 500)),
		[]string{"outside→front ? 100 1000 ? cause -1", "front→back ? 150 850 ? cause 0",
			"back→store ? 200 700 ? cause 1"},
	},
	"a root that is a client has no cause": {
		jaegerTrace(jaegerSpanJSON("a", "", "p1", "client", 100, 900),
			jaegerSpanJSON("b", "a", "p2", "server", 150, 700)),
		[]string{"front→back 100 150 850 1000 cause -1"},
	},
	"a client without a server": {
		jaegerTrace(jaegerSpanJSON("a", "", "p1", "server", 100, 900),
			jaegerSpanJSON("b", "a", "p1", "client", 150, 700)),
		[]string{"outside→front ? 100 1000 ? cause -1", "front→not named 150 ? ? 850 cause 0"},
	},
	"a client of a client is one call": {
		jaegerTrace(jaegerSpanJSON("a", "", "p1", "server", 100, 900),
			jaegerSpanJSON("b", "a", "p1", "client", 150, 700),
			jaegerSpanJSON("c", "b", "p1", "client", 160, 600),
			jaegerSpanJSON("d", "c", "p2", "server", 170, 500)),
		[]string{"outside→front ? 100 1000 ? cause -1", "front→back 160 170 670 760 cause 0"},
	},
	"a shared id": {
		jaegerTrace(jaegerSpanJSON("a", "", "p1", "server", 100, 900),
			jaegerSpanJSON("b", "a", "p1", "client", 150, 700),
			jaegerSpanJSON("b", "a", "p2", "server", 170, 500)),
		[]string{"outside→front ? 100 1000 ? cause -1", "front→back 150 170 670 850 cause 0"},
	},
	"duplicates": {
		jaegerTrace(jaegerSpanJSON("a", "", "p1", "server", 100, 900),
			jaegerSpanJSON("a", "", "p1", "server", 100, 900),
			jaegerSpanJSON("b", "a", "p2", "server", 150, 700),
			jaegerSpanJSON("b", "a", "p2", "server", 150, 700)),
		[]string{"outside→front ? 100 1000 ? cause -1", "front→back ? 150 850 ? cause 0"},
	},
	"a missing parent leaves the cause unknown": {
		jaegerTrace(jaegerSpanJSON("b", "gone", "p1", "client", 150, 700),
			jaegerSpanJSON("c", "b", "p2", "server", 160, 600)),
		[]string{"front→back 150 160 760 850 cause -2"},
	},
	"a cycle": {
		jaegerTrace(jaegerSpanJSON("a", "c", "p1", "server", 100, 900),
			jaegerSpanJSON("b", "a", "p2", "server", 150, 700),
			jaegerSpanJSON("c", "b", "p3", "server", 200, 500)),
		[]string{"outside→front ? 100 1000 ? cause -1", "front→back ? 150 850 ? cause 0",
			"back→store ? 200 700 ? cause 1"},
	},
	"messages of a queue have no response": {
		jaegerTrace(jaegerSpanJSON("a", "", "p1", "server", 100, 900),
			jaegerSpanJSON("b", "a", "p1", "producer", 150, 10),
			jaegerSpanJSON("c", "b", "p2", "consumer", 5000, 600)),
		[]string{"outside→front ? 100 1000 ? cause -1", "front→back 150 5000 ? ? cause 0 one-way"},
	},
	"a span at an impossible time": {
		jaegerTrace(jaegerSpanJSON("a", "", "p1", "server", 100, 900),
			jaegerSpanJSON("b", "a", "p2", "server", 9e15, 700)),
		[]string{"outside→front ? 100 1000 ? cause -1"},
	},
	"a span that ends before it begins": {
		jaegerTrace(jaegerSpanJSON("a", "", "p1", "server", 100, -50)),
		[]string{"outside→front ? 100 ? ? cause -1"},
	},
}

func TestJaeger(t *testing.T) {
	for name, c := range jaegerCases {
		t.Run(name, func(t *testing.T) {
			for wrap, text := range map[string]string{
				"trace":  c.text,
				"answer": `{"data":[` + c.text + `],"total":0}`,
				"array":  "[" + c.text + "]",
			} {
				if diff := cmp.Diff(c.want, read(t, Jaeger, text)); diff != "" {
					t.Errorf("%s (-want +got):\n%s", wrap, diff)
				}
			}
		})
	}
}

func TestJaegerStorageLines(t *testing.T) {
	inline := func(span, service string) string {
		return strings.Replace(span, `"processID":"p1"`,
			`"process":{"serviceName":"`+service+`"}`, 1)
	}
	got := read(t, Jaeger, inline(jaegerSpanJSON("a", "", "p1", "server", 100, 900), "front")+"\n"+
		inline(jaegerSpanJSON("b", "a", "p1", "server", 150, 700), "back"))
	want := []string{"outside→front ? 100 1000 ? cause -1", "front→back ? 150 850 ? cause 0"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

const otlpText = `{"resourceSpans":[{"resource":{"attributes":[
 {"key":"service.name","value":{"stringValue":"front"}}]},"scopeSpans":[{"spans":[
  {"traceId":"t","spanId":"a","parentSpanId":"","kind":2,
   "startTimeUnixNano":"100000","endTimeUnixNano":"1000000"},
  {"traceId":"t","spanId":"b","parentSpanId":"a","kind":"SPAN_KIND_CLIENT",
   "startTimeUnixNano":150000,"endTimeUnixNano":850000}]}]}]}
{"resourceSpans":[{"resource":{"attributes":[
 {"key":"service.name","value":{"stringValue":"back"}}]},"scopeSpans":[{"spans":[
  {"traceId":"t","spanId":"c","parentSpanId":"b","kind":2,
   "startTimeUnixNano":"170000","endTimeUnixNano":"670000"}]}]}]}`

func TestOTLP(t *testing.T) {
	want := []string{"outside→front ? 100 1000 ? cause -1", "front→back 150 170 670 850 cause 0"}
	if diff := cmp.Diff(want, read(t, OTLP, otlpText)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// All files of a directory are read, even compressed ones. The spans of one trace may be in several
// files.
func TestDirectory(t *testing.T) {
	dir := t.TempDir()
	both := strings.SplitN(otlpText, "\n{", 2)
	var packed bytes.Buffer
	z := gzip.NewWriter(&packed)
	fmt.Fprint(z, "{"+both[1])
	z.Close()
	for name, data := range map[string][]byte{
		"sub/1.json": []byte(both[0]), "2.jsonl.gz": packed.Bytes(), "README": []byte("no JSON"),
	} {
		os.MkdirAll(filepath.Join(dir, filepath.Dir(name)), 0o700)
		if err := os.WriteFile(filepath.Join(dir, name), data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	set, err := Read(OTLP, dir)
	if err != nil {
		t.Fatal(err)
	}
	if got := lines(set); len(got) != 2 || !strings.HasSuffix(got[1], "cause 0") {
		t.Errorf("read %q", got)
	}
}

func TestReadErrors(t *testing.T) {
	name := filepath.Join(t.TempDir(), "x.json")
	for text, part := range map[string]string{
		`{}`:      "no spans found",
		`{"data`:  "unexpected EOF",
		`{"a":1}`: "no spans found",
		`{"data":[{"spans":[{"spanID":"a","startTime":"soon"}]}]}`: `time "\"soon\"" is not`,
	} {
		os.WriteFile(name, []byte(text), 0o600)
		if _, err := Read(Jaeger, name); err == nil || !strings.Contains(err.Error(), part) {
			t.Errorf("read %q: %v, want %q", text, err, part)
		}
	}
	if _, err := Read("zipkin", name); err == nil || !strings.Contains(err.Error(), "not known") {
		t.Errorf("format zipkin: %v", err)
	}
}

// Recorders and tools write the same trace in different ways. All of these are read alike.
func TestVariants(t *testing.T) {
	want := []string{"outside→front ? 100 1000 ? cause -1", "front→back 150 170 670 850 cause 0"}
	jaeger := jaegerTrace(jaegerSpanJSON("a1", "", "p1", "server", 100, 900),
		jaegerSpanJSON("b1", "a1", "p1", "client", 150, 700),
		jaegerSpanJSON("c1", "b1", "p2", "server", 170, 500))
	replaced := func(text string, pairs ...string) string {
		changed := strings.NewReplacer(pairs...).Replace(text)
		if changed == text {
			t.Fatalf("%q changes nothing", pairs)
		}
		return changed
	}
	source := func(id, parent, service, kind string, start, duration int) string {
		return fmt.Sprintf(`{"_index":"jaeger-span","_source":{"traceID":"t","spanID":%q,`+
			`"parentSpanID":%q,"startTime":%d,"duration":%d,"tags":[],"tag":{"span@kind":%q},`+
			`"process":{"serviceName":%q}}}`, id, parent, start, duration, kind, service)
	}
	documents := []string{source("a1", "", "front", "server", 100, 900),
		source("b1", "a1", "front", "client", 150, 700),
		source("c1", "b1", "back", "server", 170, 500)}
	for name, text := range map[string]string{
		"as it is":  jaeger,
		"text":      replaced(jaeger, `"startTime":100`, `"startTime":"100"`),
		"fractions": replaced(jaeger, `"duration":500`, `"duration":500.0`),
		"exponents": replaced(jaeger, `"duration":500`, `"duration":5e2`),
		"durations": replaced(jaeger, `"duration":500`, `"duration":"0.0005s"`),
		"dates": replaced(jaeger, `"startTime":170`,
			`"startTime":"1970-01-01T00:00:00.00017Z"`),
		"tags as object": replaced(jaeger,
			`"tags":[{"key":"span.kind","type":"string","value":"client"}]`,
			`"tags":{"span.kind":"client"}`),
		"no tags": replaced(jaeger,
			`"tags":[{"key":"span.kind","type":"string","value":"server"}]`, `"tags":null`),
		"zeros of ids": replaced(jaeger, `"traceID":"t","spanID":"b1"}]`,
			`"traceID":"00t","spanID":"000000B1"}]`),
		"a mark at first": "\ufeff" + jaeger,
		"lines":           strings.Join(documents, "\n"),
		"Elasticsearch": `{"took":1,"hits":{"total":3,"hits":[` +
			strings.Join(documents, ",") + `]}}`,
		"a list": `[{"data":[` + jaeger + `]},{"data":null}]`,
	} {
		if diff := cmp.Diff(want, read(t, Jaeger, text)); diff != "" {
			t.Errorf("Jaeger, %s (-want +got):\n%s", name, diff)
		}
	}
	front, back, _ := strings.Cut(otlpText, "\n{")
	for name, text := range map[string]string{
		"snake": replaced(otlpText, "resourceSpans", "resource_spans", "scopeSpans", "scope_spans",
			"traceId", "trace_id", "spanId", "span_id", "parentSpanId", "parent_span_id",
			"startTimeUnixNano", "start_time_unix_nano", "endTimeUnixNano", "end_time_unix_nano"),
		"library": replaced(otlpText, "scopeSpans", "instrumentationLibrarySpans"),
		"base64":  replaced(otlpText, `Id":"a"`, `Id":"AAAAAAAAAAo="`),
		"zeros":   replaced(otlpText, `"parentSpanId":""`, `"parentSpanId":"0000000000000000"`),
		"base64 zeros": replaced(otlpText, `"parentSpanId":""`,
			`"parentSpanId":"AAAAAAAAAAA="`),
		"floats": replaced(otlpText, `"startTimeUnixNano":150000`, `"startTimeUnixNano":1.5e5`),
		"Tempo":  `{"trace":` + replaced(front, "resourceSpans", "batches") + `}{` + back,
		"list":   `[` + replaced(otlpText, "\n{\"res", "\n,{\"res") + `]`,
	} {
		if diff := cmp.Diff(want, read(t, OTLP, text)); diff != "" {
			t.Errorf("OTLP, %s (-want +got):\n%s", name, diff)
		}
	}
}

// Some recorders do not name the kinds of spans. Then a span is the caller's span of a call if its
// parent is in the same place, and its only child is in another place.
func TestKindsThatNobodyNamed(t *testing.T) {
	text := jaegerTrace(jaegerSpanJSON("a", "", "p1", "", 100, 900),
		jaegerSpanJSON("b", "a", "p1", "", 150, 700), jaegerSpanJSON("c", "b", "p2", "", 170, 500),
		jaegerSpanJSON("d", "c", "p3", "", 200, 20), jaegerSpanJSON("e", "c", "p2", "", 250, 90),
		jaegerSpanJSON("f", "e", "p3", "", 260, 20), jaegerSpanJSON("g", "e", "p3", "", 290, 20))
	want := []string{"outside→front ? 100 1000 ? cause -1", "front→back 150 170 670 850 cause 0",
		"back→store ? 200 220 ? cause 1", "back→store ? 260 280 ? cause 1",
		"back→store ? 290 310 ? cause 1"}
	if diff := cmp.Diff(want, read(t, Jaeger, text)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// What cannot be read is left out and counted, and the rest is read.
func TestUnreadableParts(t *testing.T) {
	dir := t.TempDir()
	good := jaegerTrace(jaegerSpanJSON("a", "", "p1", "server", 100, 900),
		jaegerSpanJSON("b", "a", "p2", "server", 150, 700))
	for name, text := range map[string]string{
		"torn.json": good + "\n" + good[:300], "good.trace": good, "README": "a text",
		"broken.gz": "\x1f\x8b\x08", "empty": "", "other.json": `{"data":"text"}`,
		"lost.json": jaegerTrace(jaegerSpanJSON("x", "", "p9", "server", 100, 900),
			`{"spanID":"y","startTime":"soon"}`),
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	set, err := Read(Jaeger, dir)
	if err != nil {
		t.Fatal(err)
	}
	// The two good traces are the same. A span of an unknown process is in a place without a name.
	if len(set.Calls) != 3 || set.Oddities.Duplicates != 2 || set.Oddities.Malformed != 4 ||
		set.Oddities.Why == "" || !slices.Contains(set.Places, Place{Program: "not named"}) {
		t.Errorf("%+v %+v", set.Oddities, lines(set))
	}
}

// For any input, the cause of a call is a call of the same trace to the caller's place. The cause
// may begin earlier or later than the call.
func FuzzRead(f *testing.F) {
	for _, c := range jaegerCases {
		f.Add([]byte(c.text))
	}
	f.Add([]byte(otlpText))
	f.Fuzz(func(t *testing.T, text []byte) {
		for _, decode := range []func(*builder, json.RawMessage) error{
			(*builder).jaeger, (*builder).otlp,
		} {
			b := newBuilder()
			if !json.Valid(text) || decode(b, text) != nil {
				continue
			}
			set := b.finish()
			for i, c := range set.Cause {
				if c < 0 {
					continue
				}
				if set.Path[c] != set.Path[i] || set.Calls[c].Callee != set.Calls[i].Caller {
					t.Errorf("call %d cannot be caused by call %d", i, c)
				}
			}
		}
	})
}
