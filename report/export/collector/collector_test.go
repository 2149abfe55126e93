package collector

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"go.opentelemetry.io/collector/consumer/consumertest"
	"go.opentelemetry.io/collector/pdata/ptrace"
	collectorpb "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	"github.com/cloudprofiler/cloudprofiler/analysis"
	"github.com/cloudprofiler/cloudprofiler/internal/seed"
	"github.com/cloudprofiler/cloudprofiler/internal/simrun"
	"github.com/cloudprofiler/cloudprofiler/report/export"
	"github.com/cloudprofiler/cloudprofiler/runs"
)

// forkedRun makes a run of a job that forks and joins.
func forkedRun(t *testing.T) *runs.Directory {
	t.Helper()
	return opened(t, func(parent string) error {
		return simrun.Forked(seed.Random(t), parent, "run", 500)
	})
}

// capturedRun makes a run of 99 captured messages.
func capturedRun(t *testing.T) *runs.Directory {
	t.Helper()
	return opened(t, func(parent string) error {
		_, err := simrun.Captured(seed.Random(t), parent, "run")
		return err
	})
}

func opened(t *testing.T, write func(parent string) error) *runs.Directory {
	t.Helper()
	parent := t.TempDir()
	if err := write(parent); err != nil {
		t.Fatal(err)
	}
	dir, err := runs.Open(filepath.Join(parent, "run"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { dir.Close() })
	return dir
}

// exportLines exports the run as a file of OTLP, and returns the file's lines.
func exportLines(t *testing.T, dir *runs.Directory) [][]byte {
	t.Helper()
	var file bytes.Buffer
	if _, _, err := export.OTLP(t.Context(), dir, analysis.Options{Reference: "B"},
		export.Lines(&file)); err != nil {
		t.Fatal(err)
	}
	return bytes.Split(bytes.TrimSuffix(file.Bytes(), []byte("\n")), []byte("\n"))
}

// spansOf describes all spans, each with everything that it says.
func spansOf(all ...ptrace.Traces) []string {
	var found []string
	for _, traces := range all {
		for _, group := range traces.ResourceSpans().All() {
			for _, scope := range group.ScopeSpans().All() {
				for _, s := range scope.Spans().All() {
					text := fmt.Sprintln(s.TraceID(), s.SpanID(), s.ParentSpanID(), s.Name(),
						s.Kind(), uint64(s.StartTimestamp()), uint64(s.EndTimestamp()),
						s.DroppedLinksCount(), scope.Scope().Name(),
						group.Resource().Attributes().AsRaw(),
						s.Attributes().AsRaw())
					for _, l := range s.Links().All() {
						text += fmt.Sprintln(l.TraceID(), l.SpanID())
					}
					found = append(found, text)
				}
			}
		}
	}
	slices.Sort(found)
	return found
}

// fileSpans reads lines as the collector's receiver of OTLP JSON files does.
func fileSpans(t *testing.T, lines [][]byte) (all []ptrace.Traces) {
	t.Helper()
	for _, line := range lines {
		traces, err := (&ptrace.JSONUnmarshaler{}).UnmarshalTraces(line)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, traces)
	}
	return all
}

// The collector's receiver gets each duration as a span, with the length and the interval that the
// analysis computed. The span is below that of the tuple's duration from end to end.
func TestCollectorReceivesEachDuration(t *testing.T) {
	dir := forkedRun(t)
	reference, all := sendAndReceive(t, dir)
	holdAgainstAnalysis(t, dir, reference, all)
}

// The collector's receiver gets each captured message as a span.
func TestCollectorReceivesEachMessage(t *testing.T) {
	_, all := sendAndReceive(t, capturedRun(t))
	spans := spansOf(all...)
	for _, s := range spans {
		if !strings.Contains(s, "client → server Producer") ||
			!strings.Contains(s, "cloudprofiler.bytes:50") {
			t.Fatal(s)
		}
	}
	if len(spans) != 99 {
		t.Errorf("the collector has %d spans of 99 messages", len(spans))
	}
}

// sendAndReceive sends a run to a collector. It returns what the collector's receiver got. The test
// fails if a file of the same run has other spans.
func sendAndReceive(t *testing.T, dir *runs.Directory) (analysis.Reference, []ptrace.Traces) {
	t.Helper()
	sink, address := new(consumertest.TracesSink), freeAddress(t)
	defer startReceiver(t, address, freeAddress(t), sink)()
	endpoint, err := export.NewEndpoint(t.Context(), "http://"+address, func(what string) {
		t.Errorf("it waits: %s", what)
	})
	if err != nil {
		t.Fatal(err)
	}
	told, answer, err := export.OTLP(t.Context(), dir, analysis.Options{Reference: "B"},
		endpoint.Send)
	if err != nil {
		t.Fatal(err)
	}
	if err := endpoint.Close(); err != nil {
		t.Fatal(err)
	}
	got := spansOf(sink.AllTraces()...)
	if uint64(len(got)) != told.Spans || told.Lacking > 0 {
		t.Errorf("the collector has %d spans, sent were %+v", len(got), told)
	}
	if want := spansOf(fileSpans(t, exportLines(t, dir))...); !slices.Equal(got, want) {
		t.Errorf("%d spans of a file are not those that were sent: %d", len(want), len(got))
	}
	return answer.Reference, sink.AllTraces()
}

// holdAgainstAnalysis compares spans with the durations of a run.
func holdAgainstAnalysis(t *testing.T, dir *runs.Directory, r analysis.Reference,
	all []ptrace.Traces) {
	t.Helper()
	hz := r.FrequencyLo_hz/2 + r.FrequencyHi_hz/2
	want, got := map[string]int{}, map[string]int{}
	add := func(d *analysis.DurationRow, below string) {
		length := max(math.Round((float64(d.Lo)+float64(d.Hi))/2*1e9/hz), 0)
		want[fmt.Sprintf("%d: %s → %s, %s, %d to %d, %s, below %s, %g ns", d.ID, d.From, d.To,
			d.Kind, d.Lo, d.Hi, d.Verdict, below, length)]++
	}
	var tuple []analysis.DurationRow
	settle := func() {
		below := "none"
		for _, d := range tuple {
			if d.Whole {
				below = d.From + " → " + d.To
			}
		}
		for _, d := range tuple {
			if d.Kind == "end-to-end" && d.Whole || d.Tuple == 0 {
				add(&d, "none")
				continue
			}
			add(&d, below)
			if d.Whole {
				d.Kind = "end-to-end"
				add(&d, "none")
			}
		}
		tuple = nil
	}
	if _, err := analysis.Run(t.Context(), dir, analysis.Options{Reference: "B",
		Durations: func(d analysis.DurationRow) error {
			if len(tuple) > 0 && (d.Tuple == 0 || tuple[0].Tuple != d.Tuple) {
				settle()
			}
			tuple = append(tuple, d)
			return nil
		}}); err != nil {
		t.Fatal(err)
	}
	settle()
	names := map[string]string{}
	for _, traces := range all {
		for _, group := range traces.ResourceSpans().All() {
			for _, s := range group.ScopeSpans().At(0).Spans().All() {
				names[s.TraceID().String()+s.SpanID().String()] = s.Name()
			}
		}
	}
	for _, traces := range all {
		for _, group := range traces.ResourceSpans().All() {
			for _, s := range group.ScopeSpans().At(0).Spans().All() {
				value := func(name string) string {
					v, _ := s.Attributes().Get("cloudprofiler." + name)
					return v.AsString()
				}
				below := "none"
				if !s.ParentSpanID().IsEmpty() {
					below = names[s.TraceID().String()+s.ParentSpanID().String()]
				}
				got[fmt.Sprintf("%s: %s, %s, %s to %s, %s, below %s, %g ns", value("tuple_id"),
					s.Name(), value("kind"), value("lo_cycles"), value("hi_cycles"),
					value("verdict"), below, float64(s.EndTimestamp()-s.StartTimestamp()))]++
			}
		}
	}
	if !maps.Equal(got, want) || len(want) < 1000 {
		n := 0
		for k := range want {
			if got[k] != want[k] && n < 3 {
				n++
				t.Errorf("%d spans are %s, want %d", got[k], k, want[k])
			}
		}
		t.Errorf("%d different spans, %d durations", len(got), len(want))
	}
}

// The protocol's own schema knows every field of an export. A reader that uses this schema finds
// the same spans as the collector.
func TestSchemaKnowsEveryField(t *testing.T) {
	text := append(exportLines(t, forkedRun(t)), exportLines(t, capturedRun(t))...)
	var read []ptrace.Traces
	for _, line := range text {
		var tree any
		decoder := json.NewDecoder(bytes.NewReader(line))
		decoder.UseNumber()
		if err := decoder.Decode(&tree); err != nil {
			t.Fatal(err)
		}
		// The JSON of OTLP differs from that of protocol buffers in one thing: ids are
		// hexadecimal.
		idsToBase64(t, tree)
		standard, err := json.Marshal(tree)
		if err != nil {
			t.Fatal(err)
		}
		var request collectorpb.ExportTraceServiceRequest
		if err := (protojson.UnmarshalOptions{DiscardUnknown: false}).Unmarshal(standard,
			&request); err != nil {
			t.Fatal(err)
		}
		binary, err := proto.Marshal(&request)
		if err != nil {
			t.Fatal(err)
		}
		traces, err := (&ptrace.ProtoUnmarshaler{}).UnmarshalTraces(binary)
		if err != nil {
			t.Fatal(err)
		}
		read = append(read, traces)
	}
	got, want := spansOf(read...), spansOf(fileSpans(t, text)...)
	if !slices.Equal(got, want) || len(got) < 1000 {
		t.Errorf("by the schema there are %d spans, the collector reads %d", len(got), len(want))
	}
}

// idsToBase64 turns hexadecimal ids into base64. Their lengths must be those of the protocol.
func idsToBase64(t *testing.T, tree any) {
	t.Helper()
	switch tree := tree.(type) {
	case []any:
		for _, v := range tree {
			idsToBase64(t, v)
		}
	case map[string]any:
		for k, v := range tree {
			length := map[string]int{"traceId": 16, "spanId": 8, "parentSpanId": 8}[k]
			if length == 0 {
				idsToBase64(t, v)
				continue
			}
			id, err := hex.DecodeString(v.(string))
			if err != nil || len(id) != length || strings.Trim(v.(string), "0") == "" {
				t.Fatalf("%s is %q", k, v)
			}
			tree[k] = base64.StdEncoding.EncodeToString(id)
		}
	}
}
