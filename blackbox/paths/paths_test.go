package paths

import (
	"cmp"
	"math"
	"path/filepath"
	"slices"
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

// capturedRun makes a run in which the calls of an application were captured on three nodes.
func capturedRun(t *testing.T, app string, requests int) (*runs.Directory, *calls.Set) {
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

// trueCauses links calls with their true causes. Call i of a generated set has i+1 bytes.
type trueCauses struct {
	set  *calls.Set
	seen *Seen
}

func (trueCauses) Name() string { return "truth" }

func (m trueCauses) Link(*calls.Seen) []link.Link {
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

// observeRun observes the calls of a run.
func observeRun(t *testing.T, dir *runs.Directory) (*Seen, *messages.Times) {
	t.Helper()
	seen, _, times := lookAt(t, dir)
	return seen, times
}

func lookAt(t *testing.T, dir *runs.Directory) (*Seen, *scale, *messages.Times) {
	t.Helper()
	logs, err := messages.Logs(dir)
	if err != nil {
		t.Fatal(err)
	}
	times, err := messages.NewTimes(dir, messages.Options{Reference: reference.Node})
	if err != nil {
		t.Fatal(err)
	}
	v := surveyed(t, messages.Sockets(logs))
	to := newScale(times, reference, v)
	return observeAll(t, v, to.ns, boundRefutes(times), 0), to, times
}

func surveyed(t *testing.T, sockets []*messages.Socket) *survey {
	t.Helper()
	v, err := surveySockets(sockets)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// observeAll returns all calls of sockets. The parameter held is that of the function observe.
func observeAll(t *testing.T, v *survey, time func(*messages.Call) int64,
	refuted func(sent, received *messages.Call) bool, held int) *Seen {
	t.Helper()
	o, err := observe(v, time, refuted, held)
	if err != nil {
		t.Fatal(err)
	}
	defer o.calls.close()
	seen, err := o.whole()
	if err != nil {
		t.Fatal(err)
	}
	return seen
}

// answerWhole adds all calls to an answer.
func (a *Answer) answerWhole(seen *Seen, links []link.Link, times *messages.Times,
	o *Options) error {
	return newCollector(a, times, o).addWhole(seen, links)
}

// All calls are seen, between the right programs, and their moments keep their distances.
func TestObserve(t *testing.T) {
	dir, set := capturedRun(t, "shop", 100)
	seen, _ := observeRun(t, dir)
	if len(seen.Calls) != len(set.Calls) || seen.Mixed != 0 {
		t.Fatalf("%d calls, want %d; %d connections mixed", len(seen.Calls), len(set.Calls),
			seen.Mixed)
	}
	if !slices.IsSortedFunc(seen.Calls, func(a, b calls.Call) int {
		return cmp.Compare(a.Began_ns(), b.Began_ns())
	}) {
		t.Error("the calls are not in the order in which they began")
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
		// The counter of the reference is too fast or too slow by up to 50 ppm.
		near := func(a, b int64) bool { return max(a-b, b-a) < 1000+b/10_000 }
		if !near(c.Replied_ns-c.Received_ns, want.Replied_ns-want.Received_ns) ||
			c.Caller >= 0 && !near(c.Got_ns-c.Sent_ns, want.Got_ns-want.Sent_ns) {
			t.Fatalf("call %d: %+v, want %+v", i, c, want)
		}
	}
}

// With true links, the paths are the true ones. The time of each request is divided without a
// remainder, and all durations contain the truth.
func TestPatterns(t *testing.T) {
	dir, set := capturedRun(t, "shop", 200)
	seen, times := observeRun(t, dir)
	m := trueCauses{set, seen}
	a := &Answer{}
	all := 0
	err := a.answerWhole(seen, m.Link(&seen.Seen), times, &Options{Slowest: 3,
		Each: func(p *Path) error {
			all += len(p.Calls)
			return nil
		}})
	if err != nil || all != len(set.Calls) {
		t.Fatalf("the paths have %d calls, want %d: %v", all, len(set.Calls), err)
	}
	if a.Requests != 200 || a.Links != len(set.Calls)-200 || a.Said != a.Links {
		t.Fatalf("%d requests, %d of %d links said", a.Requests, a.Said, a.Links)
	}
	requests, compared := 0, 0
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
		if p.Slow > 0 {
			slower := Interval{}
			for _, c := range p.Calls {
				slower = plus(slower, plus(c.SlowerOwn, c.SlowerNetwork))
			}
			if slower.Lo_cycles > p.Slower.Hi_cycles || slower.Hi_cycles < p.Slower.Lo_cycles ||
				p.Slower.Lo_cycles <= 0 || p.Fast < 4*p.Slow {
				t.Fatalf("pattern %d: slow requests are slower by %+v, their parts by %+v", i,
					p.Slower, slower)
			}
			compared++
		}
	}
	if requests != 200 || compared == 0 {
		t.Errorf("%d requests follow patterns; of %d patterns, slow and fast ones were compared",
			requests, compared)
	}
}

// A filter can choose the paths of a program, the paths that took long, or the path that contains a
// given message.
func TestFilters(t *testing.T) {
	dir, set := capturedRun(t, "shop", 100)
	seen, times := observeRun(t, dir)
	links := trueCauses{set, seen}.Link(nil)
	count := func(f Filter) (a Answer) {
		if err := a.answerWhole(seen, links, times, &Options{Filter: f, Slowest: 1}); err != nil {
			t.Fatal(err)
		}
		return a
	}
	all := count(Filter{})
	slowest := all.Slowest[0]
	if a := count(Filter{Least: slowest.Whole.Hi_cycles}); a.Chosen != 1 {
		t.Errorf("%d paths took as long as the slowest", a.Chosen)
	}
	orders := map[int32]bool{}
	for i, c := range set.Calls {
		if set.Places[c.Callee].Program == "order" {
			orders[set.Path[i]] = true
		}
	}
	for _, name := range []string{"order", "order:80"} {
		if a := count(Filter{Program: name}); a.Chosen != len(orders) || a.Requests != 100 {
			t.Errorf("%d of %d paths have calls to %s, want %d", a.Chosen, a.Requests, name,
				len(orders))
		}
	}
	if a := count(Filter{Program: "ord"}); a.Chosen != 0 {
		t.Errorf("%d paths have calls to a program of which only the beginning was named", a.Chosen)
	}
	m := slowest.Calls[len(slowest.Calls)-1].Message
	a := count(Filter{Message: &MessageID{m.Cookie, m.Lo_cycles}})
	if a.Chosen != 1 || *a.Slowest[0].Whole != *slowest.Whole {
		t.Errorf("%d paths have a message of the slowest path", a.Chosen)
	}
	if a := count(Filter{Doubtful: true}); a.Chosen != 0 {
		t.Errorf("%d paths have doubtful links", a.Chosen)
	}
}

// The moments of a path are in order, and no call begins before its cause was received.
func TestPath(t *testing.T) {
	dir, set := capturedRun(t, "shop", 50)
	seen, times := observeRun(t, dir)
	a := &Answer{}
	number := 0
	err := a.answerWhole(seen, trueCauses{set, seen}.Link(nil), times, &Options{
		Each: func(p *Path) error {
			for i, c := range p.Calls {
				if (i == 0) != (c.Parent < 0) || p.Began == nil || c.Probability != 1 {
					t.Fatalf("call %d: %+v", i, c)
				}
				want := set.Calls[c.Message.Bytes-1]
				took := float64(want.Replied_ns-want.Received_ns) * simrun.Hz / 1e9
				got := float64(middle(*c.Replied) - middle(*c.Received))
				if math.Abs(got-took) > 3000+took/10_000 {
					t.Fatalf("call %d took %v cycles, want %v", i, got, took)
				}
				if i == 0 {
					continue
				}
				number++
				above := p.Calls[c.Parent]
				for k, pair := range [][2]*Interval{{above.Received, c.Sent},
					{c.Sent, c.Received}, {c.Received, c.Replied}, {c.Replied, c.Got}} {
					if pair[0].Lo_cycles > pair[1].Hi_cycles {
						t.Fatalf("call %d, step %d goes back: %+v", i, k, c)
					}
				}
				if above.To.Process != c.From.Process || above.Depth+1 != c.Depth {
					t.Fatalf("call %d: %+v is not from %+v", i, c, above)
				}
			}
			return nil
		}})
	if err != nil || number != len(set.Calls)-50 {
		t.Errorf("%d calls have causes: %v", number, err)
	}
}

// The product's own method finds nearly all paths of an application at low load.
func TestOf(t *testing.T) {
	dir, set := capturedRun(t, "hotel", 300)
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
