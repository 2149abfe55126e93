package gen

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cloudprofiler/cloudprofiler/generator"
	"github.com/cloudprofiler/cloudprofiler/internal/command"
	"github.com/cloudprofiler/cloudprofiler/internal/plot"
)

func TestGenRefusesWrongUsage(t *testing.T) {
	for _, test := range []struct{ line, says string }{
		{"gen send", "--to is missing"},
		{"gen send --to host:5555 --rate 1", "tcp://192.0.2.7:5555"},
		{"gen send --to tcp://127.0.0.1:1", "--rate or --schedule"},
		{"gen send --to tcp://127.0.0.1:1 --rate 1 --schedule poisson:1x1s",
			"--rate or --schedule"},
		{"gen send --to tcp://127.0.0.1:1 --rate -5", "--rate"},
		{"gen send --to tcp://127.0.0.1:1 --rate 1e12", "--rate"},
		{"gen send --to tcp://127.0.0.1:1 --schedule sine:1x1s", "sine"},
		{"gen send --to tcp://127.0.0.1:1 --rate 1 --size 5", "--size"},
		{"gen send --to tcp://127.0.0.1:1 --rate 1 --format xml", "--format"},
		{"gen send --to tcp://127.0.0.1:1 --rate 1 --catch-up 0.5", "CatchUp"},
		{"gen send --to tcp://127.0.0.1:1 --rate 1 --core 1000", "core 1000"},
		{"gen receive --at nowhere", "--at"},
		{"gen receive --at tcp://*:5555 --connections 0", "--connections"},
		{"gen receive --at ipc:///tmp/x --connections 2", "port number"},
		{"gen receive --decode xml", "--decode"},
		{"gen search", "--target"},
		{"gen search --to tcp://127.0.0.1:1", "--back"},
		{"gen search --target bucket:x", "bucket:RATE"},
		{"gen search --target bucket:5 --trial 1ms", "Trial"},
	} {
		if code, _, errs := cprof(strings.Fields(test.line)...); code != command.Usage ||
			!strings.Contains(errs, test.says) {
			t.Errorf("cprof %s: code %d, says %q, want %d and %q", test.line, code, errs,
				command.Usage, test.says)
		}
	}
}

func TestGenSendSaysThatNobodyIsThere(t *testing.T) {
	code, _, errs := cprof("gen", "send", "--to", "tcp://127.0.0.1:1", "--rate", "1", "--patience",
		"50ms", "--rings", t.TempDir())
	if code != command.Failed || !strings.Contains(errs, "start the receiver first") {
		t.Errorf("%d %s", code, errs)
	}
}

func TestGenSendAndReceive(t *testing.T) {
	address := "ipc://" + filepath.Join(t.TempDir(), "socket")
	type answer struct {
		code      int
		out, errs string
	}
	received := make(chan answer)
	go func() {
		code, out, errs := cprof("gen", "receive", "--at", address, "--decode", "json", "--workers",
			"2", "--json", "--rings", t.TempDir(), "--patience", "20s")
		received <- answer{code, out, errs}
	}()
	code, out, errs := cprof("gen", "send", "--to", address, "--schedule", "burst:50/10msx200ms",
		"--json", "--rings", t.TempDir())
	var sent sendLine
	if err := json.Unmarshal([]byte(out), &sent); err != nil ||
		code != command.Answered && code != command.Partial {
		t.Fatalf("%d %s: %v", code, errs, err)
	}
	if sent.Scheduled != 1000 || sent.Sent != 1000 || sent.NotLogged != "" {
		t.Errorf("%+v", sent)
	}
	r := <-received
	var got receiveLine
	if err := json.Unmarshal([]byte(r.out), &got); err != nil || r.code != command.Answered {
		t.Fatalf("%d %s: %v", r.code, r.errs, err)
	}
	if got.Received != 1000 || got.Objects != 1000 || !got.Whole() {
		t.Errorf("%+v", got)
	}
}

// This test demands a rate that no machine reaches. The command says so before the run. The run
// still ends, and its numbers are marked.
func TestGenSendSaysThatARateCannotBeReached(t *testing.T) {
	pull, err := generator.NewPull("tcp://127.0.0.1:*", generator.PullOptions{})
	if err != nil {
		t.Fatal(err)
	}
	receiver, err := generator.NewReceiver(generator.ReceiverOptions{
		Sources: []generator.Source{pull}, Silence: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	got := make(chan generator.ReceiverResult)
	go func() {
		r, _ := receiver.Run(t.Context())
		got <- r
	}()
	code, out, errs := cprof("gen", "send", "--to", pull.Endpoint(), "--rate", "1e9",
		"--duration", "1ms", "--give-up", "10ms", "--json", "--no-log")
	if code != command.Partial || !strings.Contains(errs, "will not reach the rate") {
		t.Errorf("%d %s", code, errs)
	}
	var sent sendLine
	if err := json.Unmarshal([]byte(out), &sent); err != nil || sent.Scheduled != 1_000_000 ||
		sent.Skipped == 0 || sent.Scheduled != sent.Sent+sent.Skipped+sent.Unsent {
		t.Errorf("%+v, %v", sent, err)
	}
	if r := <-got; r.Received != sent.Sent || !r.Whole() {
		t.Errorf("sent %d, received %+v", sent.Sent, r.Check)
	}
}

func TestMarkedNumbersEndWithThree(t *testing.T) {
	err :=
		marksError([]generator.Marked{{Mark: generator.Lost, Count: 7,
			Text: "7 tuples did not arrive"}})
	if err == nil || !strings.Contains(err.Error(), "lost (7)") {
		t.Errorf("%v", err)
	}
	if marksError(nil) != nil {
		t.Error("clean numbers are marked")
	}
}

var sampleSearch = generator.SearchResult{
	Sustained: 95_000, Failed: 95_900, LimitedBy: generator.ByEngine,
	Why: []generator.Reason{generator.BacklogGrows}, Ceiling: 8e6, Confirmed: 3, Wanted: 3,
	Stalls: generator.Stalls{Count: 5, Typical: 50 * time.Millisecond, Every: time.Second},
	Trials: []generator.Trial{
		{Phase: "bracket",
			Rate: 160_000,
			Verdict: generator.Verdict{Reasons: []generator.Reason{generator.BacklogGrows},
				Delivered: 95_100}, P99: 400 * time.Millisecond, Cut: true},
		{Phase: "bracket", Rate: 40_000, Verdict: generator.Verdict{Delivered: 40_000},
			Sustained: true, P50: time.Millisecond, P99: 50 * time.Millisecond,
			Max: 60 * time.Millisecond},
		{Phase: "confirm", Rate: 95_000, Verdict: generator.Verdict{Delivered: 95_000},
			Sustained: true, P50: 2 * time.Millisecond, P99: 55 * time.Millisecond,
			Max: 60 * time.Millisecond},
	},
}

func TestGenPlotDrawsWhatSearchPrints(t *testing.T) {
	text, err := json.Marshal(sampleSearch)
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "search.json")
	if err := os.WriteFile(file, text, 0o600); err != nil {
		t.Fatal(err)
	}
	code, out, errs := cprof("gen", "plot", "--svg", file)
	for _, want := range []string{"<svg", "sustained: 95000 tuples a second",
		"stalls for 50ms every 1s", "p99"} {
		if !strings.Contains(out, want) {
			t.Errorf("no %q in the drawing: %d %s", want, code, errs)
		}
	}
	if code, out, _ := cprof("gen", "plot", file); code != command.Answered ||
		!strings.Contains(out, "Latency over load") {
		t.Errorf("%d %s", code, out)
	}
	for _, bad := range []string{"", "{}", "[1]"} {
		if err := plotSearch(&bytes.Buffer{}, strings.NewReader(bad), true); err == nil {
			t.Errorf("%q was drawn", bad)
		}
	}
}

func TestSearchReportIsInTheOrderOfRates(t *testing.T) {
	var out bytes.Buffer
	if err := sampleSearch.WriteText(&out); err != nil {
		t.Fatal(err)
	}
	text := out.String()
	a, b, c := strings.Index(text, "\n       40000"), strings.Index(text, "\n       95000"),
		strings.Index(text, "\n      160000")
	if a < 0 || b < a || c < b || !strings.Contains(text, "the backlog grows (cut)") {
		t.Errorf("%s", text)
	}
}

// The search finds the limit of an engine at the other end of ZeroMQ. The engine sends back the
// tuples that it has finished, and one message that is no tuple. The search reports this message at
// once, counts it, and marks the result.
func TestGenSearchOverZeroMQ(t *testing.T) {
	dir := t.TempDir()
	in, back := "ipc://"+filepath.Join(dir, "in"), "ipc://"+filepath.Join(dir, "back")
	pull, err := generator.NewPull(in, generator.PullOptions{})
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- echoEngine(t, pull, back) }()
	code, out, errs := cprof("gen", "search", "--to", in, "--back", back, "--start", "1000",
		"--highest", "1000", "--confirm", "1", "--trial", "1s", "--warm-up", "10ms", "--drain",
		"5s", "--no-curve", "--json")
	if err := <-ended; err != nil {
		t.Error(err)
	}
	var r generator.SearchResult
	if err := json.Unmarshal([]byte(out), &r); err != nil || code != command.Partial ||
		len(r.Trials) == 0 {
		t.Fatalf("%d %s: %v", code, errs, err)
	}
	for _, trial := range r.Trials {
		if trial.Check.Duplicates > 0 || !trial.Cut && (trial.Check.Received != trial.Sent ||
			trial.Check.Lost > 0) {
			t.Errorf("at %.0f: sent %d, %+v", trial.Rate, trial.Sent, trial.Check)
		}
	}
	if len(r.Marks) != 1 || r.Marks[0].Mark != generator.Malformed || r.Marks[0].Count != 1 ||
		!strings.Contains(errs, "malformed: what the engine sends back") {
		t.Errorf("marks %v, said %s", r.Marks, errs)
	}
}

// echoEngine is an engine that does nothing: it sends back what it receives, until the end. Its
// first answer has an id that no tuple has.
func echoEngine(t *testing.T, pull *generator.Pull, back string) error {
	defer pull.Close()
	push, err := generator.NewPush(t.Context(), back,
		generator.PushOptions{Patience: 30 * time.Second})
	if err != nil {
		return err
	}
	var b generator.Bucket
	var sent generator.End
	for len(b.Ends) == 0 && t.Context().Err() == nil {
		if err := pull.Receive(&b, 64); err != nil {
			return err
		}
		if len(b.Tuples) > 0 && sent.Sent == 0 {
			sent.First = b.Tuples[0].ID
			b.Tuples = append([]generator.Tuple{{ID: generator.Poison, Body: []byte("no id")}},
				b.Tuples...)
		}
		for rest := b.Tuples; len(rest) > 0; {
			n, err := push.Send(rest)
			if err != nil {
				return err
			}
			sent.Sent += uint64(n)
			if rest = rest[n:]; n == 0 {
				push.WaitRoom(10 * time.Millisecond)
			}
		}
	}
	return push.Close(sent)
}

// The figure of a search shows lines through the medians at each rate up to the sustained rate, and
// points at higher rates. It leaves out trials at rates far beyond the sustained rate, and a note
// says so.
func TestSearchFigureEndsNotFarBeyondTheLimit(t *testing.T) {
	r := sampleSearch
	r.Trials = append([]generator.Trial{
		{Rate: 95_000, Sustained: true, P99: 65 * time.Millisecond},
		{Rate: 95_000, Sustained: true, P99: 75 * time.Millisecond},
		{Rate: 96_000, Sustained: true, P99: 80 * time.Millisecond},
		{Rate: 97_000, P99: 90 * time.Millisecond},
	}, r.Trials...)
	f := searchFigure(r)
	series := map[string]plot.Series{}
	for _, p := range f.Panels {
		for _, s := range p.Series {
			series[s.Name] = s
		}
		if p.X.To > 1.5*r.Sustained {
			t.Errorf("the axis of %q goes to %g", p.Title, p.X.To)
		}
	}
	for name, want := range map[string][2][]float64{
		"p99": {{40_000, 95_000}, {50, 65}}, "p99 where not sustained": {{97_000}, {90}},
		"p99 where sustained, and not confirmed": {{96_000}, {80}},
	} {
		if s := series[name]; !slices.Equal(s.X, want[0]) || !slices.Equal(s.Y, want[1]) {
			t.Errorf("%s: %v over %v, want %v over %v", name, s.Y, s.X, want[1], want[0])
		}
	}
	if !slices.ContainsFunc(f.Notes,
		func(n string) bool { return strings.HasPrefix(n, "not drawn: 1 trials") }) {
		t.Errorf("notes %q", f.Notes)
	}
}
