package paths

import (
	"path/filepath"
	"testing"

	"github.com/cloudprofiler/cloudprofiler/analysis"
	"github.com/cloudprofiler/cloudprofiler/blackbox/calls"
	"github.com/cloudprofiler/cloudprofiler/blackbox/link"
	"github.com/cloudprofiler/cloudprofiler/blackbox/messages"
	"github.com/cloudprofiler/cloudprofiler/internal/callgen"
	"github.com/cloudprofiler/cloudprofiler/internal/seed"
	"github.com/cloudprofiler/cloudprofiler/internal/simrun"
	"github.com/cloudprofiler/cloudprofiler/runs"
)

// captured makes a run in which the calls of an application were captured on three nodes.
func captured(t *testing.T, app string, requests int) (*runs.Directory, *calls.Set) {
	t.Helper()
	set := callgen.Make(callgen.Apps[app], callgen.Options{Requests: requests, PerSecond: 20,
		Seed: 1})
	parent := t.TempDir()
	if err := callgen.Capture(seed.Random(t), parent, "run", set, 3); err != nil {
		t.Fatal(err)
	}
	dir, err := runs.Open(filepath.Join(parent, "run"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { dir.Close() })
	return dir, set
}

var reference = analysis.Reference{Node: "A", FrequencyLo_hz: simrun.Hz, FrequencyHi_hz: simrun.Hz}

// truthful links calls with their true causes. Call i of a generated set has i+1 bytes.
type truthful struct {
	set  *calls.Set
	seen *Seen
}

func (truthful) Name() string { return "truth" }

func (m truthful) Link(*calls.Seen) []link.Link {
	index := map[int32]int32{calls.NoCause: calls.NoCause}
	of := make([]int32, len(m.seen.moments))
	for i := range m.seen.moments {
		of[i] = int32(m.seen.moments[i].received.Bytes) - 1
		index[of[i]] = int32(i)
	}
	links := make([]link.Link, len(of))
	for i, n := range of {
		links[i] = link.Link{Cause: index[m.set.Cause[n]], Probability: 1}
	}
	return links
}

// look observes the calls of a run.
func look(t *testing.T, dir *runs.Directory) (*Seen, *messages.Times) {
	t.Helper()
	logs, err := messages.Logs(dir)
	if err != nil {
		t.Fatal(err)
	}
	times, err := messages.NewTimes(dir, messages.Options{Reference: reference.Node})
	if err != nil {
		t.Fatal(err)
	}
	sockets := messages.Sockets(logs)
	return observe(sockets, newScale(times, reference, sockets).ns), times
}

// All calls are seen, between the right programs, and their moments keep their distances.
func TestObserve(t *testing.T) {
	dir, set := captured(t, "shop", 100)
	seen, _ := look(t, dir)
	if len(seen.Calls) != len(set.Calls) || seen.Mixed != 0 {
		t.Fatalf("%d calls, want %d; %d connections mixed", len(seen.Calls), len(set.Calls),
			seen.Mixed)
	}
	program := func(s *calls.Seen, place int32) string {
		if place < 0 {
			return ""
		}
		return s.Places[place].Program
	}
	for i, c := range seen.Calls {
		want := set.Calls[seen.moments[i].received.Bytes-1]
		if got := program(&seen.Seen, c.Callee); got != program(&set.Seen, want.Callee)+":80" {
			t.Fatalf("call %d: %+v to %s, want %+v", i, c, got, want)
		}
		if (c.Caller < 0) != (want.Caller < 0) {
			t.Fatalf("call %d: %+v, want %+v", i, c, want)
		}
		// The counter of the reference runs up to 50 ppm fast or slow.
		near := func(a, b int64) bool { return max(a-b, b-a) < 1000+b/10_000 }
		if !near(c.Replied_ns-c.Received_ns, want.Replied_ns-want.Received_ns) ||
			c.Caller >= 0 && !near(c.Got_ns-c.Sent_ns, want.Got_ns-want.Sent_ns) {
			t.Fatalf("call %d: %+v, want %+v", i, c, want)
		}
	}
}

// With true links, the paths are the true ones. The time of each request is divided without rest,
// and all durations contain the truth.
func TestPatterns(t *testing.T) {
	dir, set := captured(t, "shop", 200)
	seen, times := look(t, dir)
	m := truthful{set, seen}
	a := &Answer{}
	a.answer(seen, m.Link(&seen.Seen), times)
	if a.Requests != 200 || a.Links != len(set.Calls)-200 || a.Said != a.Links {
		t.Fatalf("%d requests, %d of %d links said", a.Requests, a.Said, a.Links)
	}
	requests := 0
	for i := range a.Patterns {
		p := &a.Patterns[i]
		requests += p.Requests
		if p.Probability != 1 || p.From != "" || p.Calls[0].Program != "web:80" {
			t.Fatalf("pattern %d: probability %v, from %q to %q", i, p.Probability, p.From,
				p.Calls[0].Program)
		}
		if i > 0 && p.Whole.Total.Hi_cycles > a.Patterns[i-1].Whole.Total.Hi_cycles {
			t.Fatalf("pattern %d took more time than the one before", i)
		}
		var sum Interval
		for _, c := range p.Calls {
			sum = plus(sum, plus(c.WaitedOwn, c.WaitedNetwork))
		}
		if sum.Lo_cycles > p.Whole.Total.Hi_cycles || sum.Hi_cycles < p.Whole.Total.Lo_cycles {
			t.Fatalf("pattern %d: the parts are %+v, the whole is %+v", i, sum, p.Whole.Total)
		}
	}
	if requests != 200 {
		t.Errorf("%d requests follow patterns", requests)
	}
}

// The product's own method finds nearly all paths of an application at low load.
func TestOf(t *testing.T) {
	dir, set := captured(t, "hotel", 300)
	a, err := Of(dir, Options{Reference: reference})
	if err != nil {
		t.Fatal(err)
	}
	if a.Method != "learnt" || a.Calls != len(set.Calls) || a.Requests != 300 ||
		len(a.Patterns) < 4 {
		t.Fatalf("%d requests, %d patterns", a.Requests, len(a.Patterns))
	}
	common := 0
	for _, p := range a.Patterns[:4] { // hotel has four kinds of requests
		common += p.Requests
	}
	if common < 290 || float64(a.Said) < 0.98*float64(a.Links) {
		t.Errorf("%d requests follow the first four patterns; %d of %d links are said", common,
			a.Said, a.Links)
	}
}
