package demo

import (
	"context"
	"errors"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/cloudprofiler/cloudprofiler/analysis"
	"github.com/cloudprofiler/cloudprofiler/control"
	"github.com/cloudprofiler/cloudprofiler/examples/adstream/job"
	"github.com/cloudprofiler/cloudprofiler/internal/leak"
	"github.com/cloudprofiler/cloudprofiler/internal/privileged"
	"github.com/cloudprofiler/cloudprofiler/internal/reexec"
	"github.com/cloudprofiler/cloudprofiler/internal/seed"
	"github.com/cloudprofiler/cloudprofiler/internal/virtual"
	"github.com/cloudprofiler/cloudprofiler/runs"
	"github.com/cloudprofiler/cloudprofiler/vnode"
)

// With this variable set, the test binary runs one of the demonstration's processes.
const processVariable = "CLOUDPROFILER_DEMO_PROCESS"

// With this variable set to a directory, the binary makes its own directory there and kills itself.
const abandonVariable = "CLOUDPROFILER_DEMO_ABANDON"

func TestMain(m *testing.M) {
	if parent := os.Getenv(abandonVariable); parent != "" {
		if _, err := makeDirectory(parent); err == nil {
			syscall.Kill(os.Getpid(), syscall.SIGKILL)
		}
		return
	}
	if os.Getenv(processVariable) != "" {
		if err := Process(context.Background(), os.Stdin, os.Stdout); err != nil {
			os.Stderr.WriteString(err.Error() + "\n")
			os.Exit(1)
		}
		return
	}
	os.Setenv(processVariable, "1")
	os.Exit(leak.Main(m))
}

var examinedMachine = sync.OnceValues(examine)

// options returns the options of a small demonstration. The test fails if the demonstration leaves
// something behind.
func options(t *testing.T) Options {
	t.Helper()
	self, err := reexec.Argv()
	if err != nil {
		t.Fatal(err)
	}
	m, err := examinedMachine()
	if err != nil {
		t.Fatal(err)
	}
	shared, err := os.MkdirTemp(sharedMemory(), "cloudprofiler-demo.test-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.Remove(shared); err != nil {
			left, _ := filepath.Glob(filepath.Join(shared, "*"))
			t.Errorf("left behind: %q: %v", left, err)
			os.RemoveAll(shared)
		}
	})
	return Options{
		Tuples: 1000, PerSecond: 1000, Exchanges: 20, LoadBytes: 1e6, Loopback: true,
		Command: self, Brief: true, machine: &m, shared: shared,
	}
}

// check fails unless the run is complete and every duration is right.
func check(t *testing.T, r *Result) {
	t.Helper()
	checked, between, outside := r.Checked()
	if checked < 10*r.Tuples || between < checked/2 || outside != 0 {
		t.Errorf("%d durations checked, %d between nodes, %d outside", checked, between, outside)
	}
	if r.Lost != 0 || r.Tuples != 1000 {
		t.Errorf("%d tuples, %d lost", r.Tuples, r.Lost)
	}
	if !r.Consistent() || r.Trains < 12 || r.Exchanges < 12*10 || r.Kernel < r.Stamps*9/10 {
		t.Errorf("consistent %v, %d trains, %d exchanges, %d of %d stamps by the kernel",
			r.Consistent(), r.Trains, r.Exchanges, r.Kernel, r.Stamps)
	}
	checkBounds(t, r)
	checkFrequencies(t, r)
	checkAnswer(t, r)
	checkComparisons(t, r)
	checkSpans(t, r)
}

func checkBounds(t *testing.T, r *Result) {
	t.Helper()
	if len(r.Paper.Anchors) != 6 || r.Paper.Exchanges < 6*4*20 || r.Paper.RoundTrip == 0 {
		t.Errorf("the paper's method: %+v", r.Paper)
	}
	half, paper := r.HalfWidth_cycles(), r.Paper.HalfWidth_cycles(r.Wander)
	if half <= 0 || half > paper {
		t.Errorf("the bound is %g cycles, by the paper's method %g", half, paper)
	}
}

// The answer also compares durations with the truth, from the logs alone. checkAnswer checks that
// this comparison covers all durations of the result, and also the durations through windows.
func checkAnswer(t *testing.T, r *Result) {
	t.Helper()
	var direct int
	for _, h := range r.Spans {
		if !h.Since {
			direct += len(h.Durations)
		}
	}
	if h := r.Answer.Held; h == nil || int(h.Count) < direct || h.Outside != 0 ||
		!(h.MostUsed > 0) || h.MostUsed > 1 {
		t.Errorf("the answer's check against the truth: %+v, want at least %d durations", h, direct)
	}
	for _, h := range r.Spans {
		i := slices.IndexFunc(r.Answer.Spans, func(l analysis.Span) bool {
			return l.From == h.From && l.To == h.To
		})
		if h.Since || i < 0 {
			continue
		}
		held, median := r.Answer.Spans[i].All.Held, h.truePercentile(50)
		p50 := held.True[4]
		if held.Count != uint64(len(h.Durations)) ||
			p50.Lo_cycles > median || median > p50.Hi_cycles {
			t.Errorf("%s to %s: the true median is %v of %d by the logs alone, "+
				"but %d of %d by the physical stamps",
				h.From, h.To, p50, held.Count, median, len(h.Durations))
		}
	}
}

// checkComparisons checks the bounds that the other methods would have claimed.
func checkComparisons(t *testing.T, r *Result) {
	t.Helper()
	if len(r.Answer.Comparisons) != 6 {
		t.Errorf("%d pairs are compared with other methods, want 6", len(r.Answer.Comparisons))
	}
	for _, c := range r.Answer.Comparisons {
		for _, m := range c.Methods {
			want := true
			switch m.Name {
			case analysis.ReT: // from source to count, on A and D
				want = c.A == "A" && c.B == "D"
			case analysis.NTP:
				want = r.NTP
			}
			if want && (m.Held == nil || m.Held.Outside != 0 || m.Held.Count == 0) {
				t.Errorf("%s, %s by %s, checked against the truth: %+v", c.A, c.B, m.Name, m.Held)
			}
			if m.Name == analysis.NTP && want && !strings.Contains(m.About, "REALTIME") {
				t.Errorf("%s, %s: NTP does not say which clock it is about: %q", c.A, c.B, m.About)
			}
			if (m.Absent == "") != want || want && m.Median_cycles == 0 {
				t.Errorf("%s, %s by %s: %d cycles, absent %q",
					c.A, c.B, m.Name, m.Median_cycles, m.Absent)
			}
		}
	}
}

func checkSpans(t *testing.T, r *Result) {
	t.Helper()
	var whole *Span
	for _, h := range r.Spans {
		if least := h.truePercentile(0); least < 0 {
			t.Errorf("%s to %s: the truth is %d cycles: a tuple arrived before it left",
				h.From, h.To, least)
		}
		transfer := strings.HasSuffix(h.From, "/end")
		if crosses := h.Crosses == len(h.Durations); !h.Since && crosses != transfer {
			t.Errorf("%s to %s: %d of %d are between nodes",
				h.From, h.To, h.Crosses, len(h.Durations))
		}
		if h.Since && h.To == LastPoint {
			whole = h
		}
	}
	for _, method := range []string{analysis.MinRTT, analysis.ReT} {
		if bound, ok := r.Claimed_cycles(whole, method); !ok || bound == 0 {
			t.Errorf("%s claims %d cycles for the whole path, %v", method, bound, ok)
		}
	}
	if local := r.Spans[0]; local.Crosses == 0 {
		if bound, ok := r.Claimed_cycles(local, analysis.MinRTT); ok {
			t.Errorf("a bound between nodes of %d cycles is claimed within one node", bound)
		}
	}
	if whole == nil || len(whole.Durations) < 1000/4 || len(whole.Durations) > 1000/2 {
		t.Errorf("%+v came to the end, want a third of all tuples", whole)
	}
}

func TestDemo(t *testing.T) {
	o := options(t)
	o.Keep = filepath.Join(t.TempDir(), "kept")
	r, err := Run(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	check(t, r)
	if at, proposal, err := propose(r); err != nil || at["source"][0] != "A" ||
		at["store"][0] != "B" || len(at) != 7 || !strings.HasPrefix(proposal, "9 operators on ") ||
		!strings.Contains(proposal, "\ntoday: end to end ") {
		t.Errorf("the job should run on %v: %v\n%s", at, err, proposal)
	}
	// The directory that was kept is an ordinary run of virtual nodes.
	run, err := runs.Open(o.Keep)
	if err != nil {
		t.Fatal(err)
	}
	defer run.Close()
	if lacks := run.Lacks(); len(lacks) > 0 || len(run.Run.Nodes) != 4 {
		t.Errorf("the run lacks %v of %d nodes", lacks, len(run.Run.Nodes))
	}
	for i, n := range run.Run.Nodes {
		text, err := run.Truth(n.Name)
		if err != nil {
			t.Fatal(err)
		}
		config, err := vnode.ParseConfig(text)
		if err != nil || !n.Virtual || config.Counter.Start != r.Nodes[i].Start {
			t.Errorf("node %s: virtual %v, its truth begins at %d, want %d: %v",
				n.Name, n.Virtual, config.Counter.Start, r.Nodes[i].Start, err)
		}
	}
	page, err := os.Stat(filepath.Join(o.Keep, "report.html"))
	if err != nil || page.Size() < 10_000 {
		t.Errorf("page: %v", err)
	}
}

// The epochs of a demonstration tell its counters from those of any other demonstration.
func TestEpochsOfDemonstrationsDiffer(t *testing.T) {
	placement, err := job.ParsePlacement(placementText)
	if err != nil {
		t.Fatal(err)
	}
	physical := machine{Physical: virtual.Physical{Hz: 2_600_000_000}, Quantum_cycles: 1}
	seen := map[string]int{}
	for range 2 {
		for _, n := range virtualNodes(physical, placement, time.Minute) {
			seen[n.Node.Name+" "+n.Node.Epoch]++
		}
	}
	if len(seen) != 2*len(placement.Nodes) {
		t.Errorf("two demonstrations have the counters %v", seen)
	}
}

func TestPrivilegedDemo(t *testing.T) {
	privileged.Need(t)
	o := options(t)
	o.Loopback = false
	r, err := Run(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	if r.NTP != (findChrony() != "") || r.WhyNoNTP != nil {
		t.Errorf("NTP %v, %v", r.NTP, r.WhyNoNTP)
	}
	if !r.Namespaces || r.WhyLoopback != nil {
		t.Errorf("namespaces %v, %v", r.Namespaces, r.WhyLoopback)
	}
	check(t, r)
}

// If a virtual counter is not the counter that the exchanges saw, the check against the truth
// fails.
func TestWrongCountersAreFoundOut(t *testing.T) {
	seed.NotUnderRace(t, "TestDemo runs the same processes")
	if testing.Short() {
		t.Skip("takes some seconds")
	}
	o := options(t)
	o.Tuples = 300
	o.spoil = func(r *Result) {
		b := &r.Nodes[1]
		b.Clocks.Counter.Start += b.Node.Nominal_hz / 100
	}
	r, err := Run(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	for _, h := range r.Spans {
		if h.Since || strings.HasPrefix(h.From, "deserialise/") ||
			strings.HasPrefix(h.From, "window/") || strings.HasPrefix(h.From, "store/") {
			continue // B runs some of these instances too
		}
		onB := strings.HasPrefix(h.From, "project/") != strings.HasPrefix(h.To, "project/")
		if onB != (h.Outside == len(h.Durations)) {
			t.Errorf("%s to %s: %d of %d are outside", h.From, h.To, h.Outside, len(h.Durations))
		}
	}
	if checked, _, outside := r.Checked(); outside < checked/10 {
		t.Errorf("%d of %d are outside", outside, checked)
	}
}

// A demonstration that is interrupted at any moment leaves nothing behind, and returns the reason.
func TestDemoInterrupted(t *testing.T) {
	o := options(t)
	for _, at := range []string{
		"starting node C", "anchors before", "tuples in", "anchors after", "joining",
	} {
		t.Run(at, func(t *testing.T) {
			t.Parallel()
			interrupt(t, o, at)
		})
	}
}

func interrupt(t *testing.T, o Options, at string) {
	o.Tuples = 200
	if at == "tuples in" {
		o.Tuples = 100_000 // enough to be interrupted in the middle
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var once sync.Once
	o.Progress = func(step string) {
		if !strings.Contains(step, at) {
			return
		}
		once.Do(func() {
			if at == "tuples in" {
				time.AfterFunc(time.Second, cancel) // in the middle of the job
				return
			}
			cancel()
		})
	}
	if _, err := Run(ctx, o); !errors.Is(err, context.Canceled) {
		t.Errorf("interrupted at %q: %v", at, err)
	}
}

func TestPercentile(t *testing.T) {
	v := []int64{50, 10, 40, 30, 20}
	for p, want := range map[float64]int64{0: 10, 20: 10, 21: 20, 50: 30, 99: 50, 100: 50} {
		if got := percentile(slices.Clone(v), p); got != want {
			t.Errorf("p%v = %d, want %d", p, got, want)
		}
	}
}

// If the parent of a process dies, the process ends, because its input ends.
func TestProcessEndsWithItsInput(t *testing.T) {
	in, parent, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	out, says, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- Process(t.Context(), in, says) }()
	dir := t.TempDir()
	s := serverSetup{
		Address: "127.0.0.1:0",
		State:   filepath.Join(dir, "state"),
		Runs:    filepath.Join(dir, "runs"),
	}
	for role, key := range map[control.Role]*control.Key{
		control.RoleServer: &s.Key, control.RoleAdmin: &s.Admin,
	} {
		if *key, err = control.NewKey(string(role), role); err != nil {
			t.Fatal(err)
		}
	}
	s.Clients = append(s.Clients, s.Admin.Halved())
	l := newLink(out, parent)
	if err := l.send(setupMessage{Server: &s}); err != nil {
		t.Fatal(err)
	}
	var r readyAnswer
	if err := l.in.Decode(&r); err != nil || r.Server == "" {
		t.Fatalf("ready %+v, %v", r, err)
	}
	// The process waits for a second node before it carries out this order, and that node never
	// comes.
	if err := l.send(order{Do: orderStartRun, Count: 1}); err != nil {
		t.Fatal(err)
	}
	parent.Close()
	select {
	case err := <-ended:
		if err != nil {
			t.Errorf("Process = %v", err)
		}
	case <-time.After(3 * time.Minute):
		t.Fatal("the process still runs without a parent")
	}
}

func TestProcessRefuses(t *testing.T) {
	for _, text := range []string{"", "{", "{}"} {
		if err := Process(t.Context(), strings.NewReader(text), os.Stdout); err == nil {
			t.Errorf("%q was accepted as a setup", text)
		}
	}
}

// checkFrequencies fails unless each node's frequency was measured over the run. All counters are
// known functions of the one physical counter. So the nodes' frequencies must give the same
// frequency of this physical counter, to within the wander of the rates.
func checkFrequencies(t *testing.T, r *Result) {
	t.Helper()
	if f := r.Answer.Reference; !f.Measured() || f.Source != "CLOCK_MONOTONIC_RAW over the run" {
		t.Errorf("the run's frequency: %+v", f)
	}
	least, most := math.Inf(1), 0.0 // the smallest upper end, the largest lower one
	for i, n := range r.Answer.Nodes {
		back := 1 + r.Nodes[i].Rate/1e6
		least, most = min(least, n.FrequencyHi_hz/back), max(most, n.FrequencyLo_hz/back)
	}
	if most > least*(1+wander_ppm/1e6) {
		t.Errorf("the physical counter runs above %f Hz by one node, and below %f Hz by another",
			most, least)
	}
	for _, h := range r.Spans {
		if _, ok := h.Percentiles.At(99); !ok {
			t.Errorf("%s to %s has no percentiles from the answer", h.From, h.To)
		}
	}
}

// truePercentile returns the percentile of the truth.
func (h *Span) truePercentile(p float64) int64 { return percentile(slices.Clone(h.Truth), p) }
