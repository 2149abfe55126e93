package link

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/cloudprofiler/cloudprofiler/blackbox/calls"
	"github.com/cloudprofiler/cloudprofiler/internal/callgen"
	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

// These are the numbers in figures 6, 7 and 8 of the paper on WAP5 (see wap5). Messages come at 1,
// 2 and 3. A call is sent at 4, and another one later. The paper prints .03 for the last number,
// but then the numbers do not sum to 1.
func TestWAP5Figures(t *testing.T) {
	for _, c := range []struct{ delays, want []float64 }{
		{[]float64{1, 2, 3}, []float64{.64, .24, .09, .03}},
		{[]float64{2, 3, 4}, []float64{.61, .22, .08, .08}},
	} {
		for i, p := range wap5Weights(c.delays, 1, 4) {
			if math.Abs(p-c.want[i]) > 0.005 {
				t.Errorf("delays %v: probability %d is %.3f, want %.2f", c.delays, i, p, c.want[i])
			}
		}
	}
	// The only candidate came before the call by z times the mean delay, for z from 0 to 4.
	for z, want := range []float64{.982, .953, .881, .731, .5} {
		if p := wap5Weights([]float64{float64(z)}, 1, 4)[0]; math.Abs(p-want) > 0.0005 {
			t.Errorf("delay %d: probability %.4f, want %.3f", z, p, want)
		}
	}
}

func made(app string, requests int, rate float64) *calls.Set {
	return callgen.Make(callgen.Apps[app],
		callgen.Options{Requests: requests, PerSecond: rate, Seed: 22})
}

func pathsRight(s Score) float64 { return float64(s.PathsRight) / float64(s.Paths) }

// The product's own method (learnt) is better than the other methods, and its sure links are right.
func TestLearnt(t *testing.T) {
	for _, c := range []struct {
		app   string
		rate  float64
		paths float64 // least share of right paths
	}{{"hotel", 20, 0.99}, {"hotel", 1000, 0.9}, {"media", 20, 0.9}, {"shop", 150, 0.85}} {
		set := made(c.app, 250, c.rate)
		var first Score
		for i, m := range Methods {
			s := Judge(set, m.Link(&set.Seen))
			if i == 0 {
				first = s
				if pathsRight(s) < c.paths || float64(s.SureWrong) > 0.01*float64(s.Sure) {
					t.Errorf("%s at %g: %+v", c.app, c.rate, s)
				}
			} else if s.PathsRight > first.PathsRight {
				t.Errorf("%s at %g: %s has more paths right: %d > %d", c.app, c.rate, m.Name(),
					s.PathsRight, first.PathsRight)
			}
		}
	}
}

// At a low load, calls of random applications are linked well: two requests that overlap are not
// confused with each other, and links that are called sure are right.
func TestRandomApps(t *testing.T) {
	var sure, wrong, paths, right int
	for _, seed := range []uint64{5, 10, 12} {
		set := callgen.Make(callgen.Random(seed),
			callgen.Options{Requests: 300, PerSecond: 10, Seed: 1})
		links := Methods[0].Link(&set.Seen)
		s := Judge(set, links)
		sure, wrong = sure+s.Sure, wrong+s.SureWrong
		paths, right = paths+s.Paths, right+s.PathsRight
		for _, m := range Methods[1:] {
			if other := Judge(set, m.Link(&set.Seen)); other.PathsRight > s.PathsRight {
				t.Errorf("seed %d: %s has %d paths right, not %d", seed, m.Name(),
					other.PathsRight, s.PathsRight)
			}
		}
	}
	if wrong*1000 > sure || right*100 < 99*paths {
		t.Errorf("%d of %d sure links are wrong, %d of %d paths are right", wrong, sure, right,
			paths)
	}
}

// causesOf returns the cause of each call. It names calls by moments that stay the same when clocks
// are shifted.
func causesOf(set *calls.Set, links []Link) map[[2]int64]int64 {
	name := func(i int32) int64 {
		if i < 0 {
			return int64(i)
		}
		c := set.Calls[i]
		return c.Replied_ns - c.Received_ns + int64(set.Path[i])<<40
	}
	m := map[[2]int64]int64{}
	for i := range links {
		if set.Calls[i].Caller >= 0 {
			m[[2]int64{name(int32(i)), int64(set.Calls[i].Callee)}] = name(links[i].Cause)
		}
	}
	return m
}

// WAP5 compares only moments of one clock, so it does not matter how clocks are set.
func TestClocksDoNotMatterToWAP5(t *testing.T) {
	set, shifted := made("shop", 150, 150), made("shop", 150, 150)
	callgen.ShiftClocks(shifted, 10_000_000, 3)
	before := causesOf(set, wap5{}.Link(&set.Seen))
	if diff := cmp.Diff(before, causesOf(shifted, wap5{}.Link(&shifted.Seen))); diff != "" {
		t.Errorf("(-before +after):\n%s", diff)
	}
}

// If the callers' moments are known, clocks do not matter. If they are not, clocks are aligned.
// Each link is the same, however the clocks are set. In random-4, nobody waits for the responses of
// some calls, so these calls may lie within no request.
func TestClocksDoNotMatter(t *testing.T) {
	for name, set := range map[string]*calls.Set{
		"hotel": made("hotel", 100, 150), "shop": made("shop", 100, 1500),
		"media": made("media", 100, 150), "node": made("node", 100, 20),
		"random-4": callgen.Make(callgen.Random(4),
			callgen.Options{Requests: 400, PerSecond: 10, Seed: 1}),
	} {
		before := Methods[0].Link(&set.Seen)
		for _, shift_ns := range []int64{100_000, 10_000_000} {
			shifted, old := callgen.WithOtherClocks(set, shift_ns, 3)
			differ := 0
			for i, l := range Methods[0].Link(&shifted.Seen) {
				if l.Cause >= 0 {
					l.Cause = old[l.Cause]
				}
				differ += count(set.Calls[old[i]].Caller >= 0 && l.Cause != before[old[i]].Cause)
			}
			if differ > 0 {
				t.Errorf("%s: with clocks that differ by %d ns, %d of %d links differ", name,
					shift_ns, differ, len(before))
			}
		}
		if s := Judge(set, before); pathsRight(s) < 0.5 {
			t.Errorf("%s: %+v", name, s)
		}
	}
}

// If the callers' moments are not known, and clocks differ by more than the method looks at, it
// does not say links that are wrong.
func TestClocksFarApart(t *testing.T) {
	for _, c := range []struct {
		app  string
		rate float64
	}{{"media", 20}, {"media", 150}, {"node", 20}} {
		set := made(c.app, 150, c.rate)
		callgen.ShiftClocks(set, 3_000_000_000, 1)
		s := Judge(set, Methods[0].Link(&set.Seen))
		if float64(s.SaidWrong) > 0.01*float64(s.Links) {
			t.Errorf("%s at %g: of %d links, %d are said, %d of them wrong", c.app, c.rate,
				s.Links, s.Said, s.SaidWrong)
		}
	}
}

// If the data are linked window by window, the links are nearly the same as without windows.
func TestWindows(t *testing.T) {
	set := made("hotel", 500, 300)
	whole := Judge(set, learntMethod{window: 1e6}.Link(&set.Seen))
	parts := Judge(set, learntMethod{window: 50}.Link(&set.Seen))
	if pathsRight(whole) < 0.98 || pathsRight(parts) < 0.97 {
		t.Errorf("right paths: %d of the whole, %d in windows, of %d", whole.PathsRight,
			parts.PathsRight, whole.Paths)
	}
}

// A model goes on learning in later windows. So it is as good there as in the first one, at high
// load and after the load has changed.
func TestLaterWindows(t *testing.T) {
	busy, changed := made("shop", 3000, 1500), made("shop", 3000, 150)
	compressEnd(changed, 10)
	for name, c := range map[string]struct {
		set   *calls.Set
		paths float64
	}{"busy": {busy, 0.8}, "changed": {changed, 0.88}} {
		s := Judge(c.set, learntMethod{window: 2000}.Link(&c.set.Seen))
		if pathsRight(s) < c.paths || s.SureWrong*100 > s.Sure {
			t.Errorf("%s: %.3f of the paths are right, %d of %d sure links are wrong", name,
				pathsRight(s), s.SureWrong, s.Sure)
		}
	}
}

// compressEnd divides the times between the beginnings of the later half of the paths by a factor.
func compressEnd(set *calls.Set, factor float64) {
	begins := map[int32]int64{}
	for i := range set.Calls {
		if _, ok := begins[set.Path[i]]; !ok {
			begins[set.Path[i]] = set.Calls[i].Began_ns()
		}
	}
	middle := set.Calls[len(set.Calls)/2].Began_ns()
	for i := range set.Calls {
		since := max(begins[set.Path[i]]-middle, 0)
		c, shift := &set.Calls[i], int64(float64(since)/factor)-since
		shift -= shift % set.Quantum_ns
		for _, t := range [...]*int64{&c.Sent_ns, &c.Received_ns, &c.Replied_ns, &c.Got_ns} {
			if *t != calls.Unknown {
				*t += shift
			}
		}
	}
	set.Arrange()
}

// If the cause of a call is missing in the data, no other call is surely its cause.
func TestMissingCauses(t *testing.T) {
	set := made("hotel", 600, 60)
	// The front does not see every fourth request. The calls of these requests seem to have no
	// cause.
	lost := map[int32]bool{}
	var kept calls.Set
	kept.Places, kept.Paths = set.Places, set.Paths
	number := make([]int32, len(set.Calls))
	for i, c := range set.Calls {
		if c.Caller == calls.Outside && set.Path[i]%4 == 0 {
			lost[int32(i)] = true
			continue
		}
		number[i] = int32(len(kept.Calls))
		kept.Calls = append(kept.Calls, c)
		kept.Path = append(kept.Path, set.Path[i])
	}
	for i, cause := range set.Cause {
		switch {
		case lost[int32(i)]:
		case cause >= 0 && lost[cause]:
			kept.Cause = append(kept.Cause, calls.NoCause)
		case cause >= 0:
			kept.Cause = append(kept.Cause, number[cause])
		default:
			kept.Cause = append(kept.Cause, cause)
		}
	}
	kept.Quantum_ns = set.Quantum_ns
	s := Judge(&kept, Methods[0].Link(&kept.Seen))
	if float64(s.SureWrong) > 0.01*float64(s.Sure) {
		t.Errorf("%d of %d sure links are wrong", s.SureWrong, s.Sure)
	}
	if s.Sure < s.Links/2 {
		t.Errorf("only %d of %d links are sure", s.Sure, s.Links)
	}
}

func TestThread(t *testing.T) {
	set := &calls.Set{Seen: calls.Seen{
		Places: []calls.Place{{Program: "a"}, {Program: "b"}},
		Calls: []calls.Call{
			{Caller: -1, Callee: 0, Received_ns: 10, Replied_ns: 100, ReceivedBy: 1},
			{Caller: -1, Callee: 0, Received_ns: 20, Replied_ns: 100, ReceivedBy: 2},
			{Caller: 0, Callee: 1, Sent_ns: 30, Got_ns: 50, SentBy: 1},
			{Caller: 0, Callee: 1, Sent_ns: 40, Got_ns: 60, SentBy: 3},
		},
	}}
	links := thread{}.Link(&set.Seen)
	if links[2].Cause != 0 || links[3].Cause != calls.NoCause {
		t.Errorf("causes %d and %d, want 0 and none", links[2].Cause, links[3].Cause)
	}
}

func TestJudge(t *testing.T) {
	set := &calls.Set{Truth: calls.Truth{
		Cause: []int32{-1, 0, 0, -1, 3}, Path: []int32{0, 0, 0, 1, 1}, Paths: 2,
	}}
	set.Calls = []calls.Call{{Caller: -1}, {}, {}, {Caller: -1}, {}}
	links := []Link{{}, {Cause: 0, Probability: 1}, {Cause: 3, Probability: .95}, {},
		{Cause: 3, Probability: .5}}
	want := Score{Links: 3, Right: 2, Paths: 2, PathsRight: 0, Said: 2, SaidWrong: 1, Sure: 1,
		Calibration: (0 + .95 + .5) / 3,
		Chance:      math.Sqrt(2/math.Pi) * (math.Sqrt(.95*.05) + .5) / 3}
	if diff := cmp.Diff(want, Judge(set, links), cmpopts.EquateApprox(0, 1e-9)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	links[2].Cause = 0
	if s := Judge(set, links); s.PathsRight != 2 {
		t.Errorf("%d paths right, want 2", s.PathsRight)
	}
}

// If two models disagree about the cause of a call, the mean of their links is not sure.
func TestBoth(t *testing.T) {
	one := Link{Cause: 1, Probability: 1, RunnerUp: calls.NoCause}
	other := Link{Cause: 2, Probability: 0.9, RunnerUp: 1, RunnerUpProbability: 0.1}
	got := meanLink(one, other, 0.5)
	want := Link{Cause: 1, Probability: 0.55, RunnerUp: 2, RunnerUpProbability: 0.45}
	near := func(x, y float64) bool { return math.Abs(x-y) < 1e-9 }
	if got.Cause != want.Cause || !near(got.Probability, want.Probability) ||
		got.RunnerUp != want.RunnerUp || !near(got.RunnerUpProbability, want.RunnerUpProbability) {
		t.Errorf("both say %+v, want %+v", got, want)
	}
}

// For any moments, each link names a request that its caller received, or no cause.
func TestAnyMoments(t *testing.T) {
	random := rand.New(rand.NewPCG(22, 22))
	for k := range 12 {
		seen := calls.Seen{Places: make([]calls.Place, 1+random.IntN(4)), Quantum_ns: 1}
		for i := range seen.Places {
			seen.Places[i].Program = string(rune('a' + random.IntN(3)))
		}
		wide := []int64{1, 1000, 1e9, calls.Latest_ns}[k%4]
		moment := func() int64 {
			if random.IntN(3) == 0 {
				return calls.Unknown
			}
			return random.Int64N(wide)
		}
		for range random.IntN(40) {
			c := calls.Call{Caller: int32(random.IntN(len(seen.Places)+1)) - 1,
				Callee:  int32(random.IntN(len(seen.Places))),
				Sent_ns: moment(), Received_ns: moment(), Replied_ns: moment(), Got_ns: moment()}
			if c.Sent_ns == calls.Unknown && c.Received_ns == calls.Unknown {
				c.Received_ns = random.Int64N(wide)
			}
			seen.Calls = append(seen.Calls, c)
		}
		for _, m := range Methods {
			for i, l := range m.Link(&seen) {
				bad := l.Probability < 0 || l.Probability > 1+1e-9 || math.IsNaN(l.Probability)
				if bad || l.Cause >= 0 && seen.Calls[l.Cause].Callee != seen.Calls[i].Caller {
					t.Fatalf("%s: link %d is %+v", m.Name(), i, l)
				}
			}
		}
	}
}

// A client sends requests to b. For each of them, b sends a message to c, c sends one back, and b
// sends one to the client. Each program takes a random time, exponential with a mean of 5 ms, and
// each message takes 10 ms. The first number is the share of messages of which WAP5's most probable
// cause is right. It comes from another implementation of the paper. The second number is the mean
// delay in ms, as WAP5 measures it, before b sends to c. If more requests are open, the latest
// message is less often the cause, so this mean is smaller. If the clock of b is wrong by a
// constant, no link changes.
func TestWAP5AtSeveralLoads(t *testing.T) {
	const client, b, c, way_ns = 0, 1, 2, 10_000_000
	random := rand.New(rand.NewPCG(22, 5))
	for rate, want := range map[float64][2]float64{1: {.973, 4.83}, 5: {.945}, 20: {.843},
		50: {.709}, 100: {.549, 2.44}} {
		set := &calls.Set{Seen: calls.Seen{
			Places: []calls.Place{{Program: "client"}, {Program: "b"}, {Program: "c"}}}}
		at := 0.0
		for range 1500 {
			at += random.ExpFloat64() * 1e9 / rate
			now := int64(at)
			for i, ends := range [...][2]int32{{client, b}, {b, c}, {c, b}, {b, client}} {
				if i > 0 {
					now += int64(random.ExpFloat64() * 5e6)
				}
				cause := int32(len(set.Calls)) - 1
				if i == 0 {
					cause = calls.NoCause
				}
				set.Calls = append(set.Calls, calls.Call{Caller: ends[0], Callee: ends[1],
					Sent_ns: now, Received_ns: now + way_ns, Replied_ns: calls.Unknown,
					Got_ns: calls.Unknown})
				set.Cause, set.Path = append(set.Cause, cause), append(set.Path, 0)
				now += way_ns
			}
		}
		set.Arrange()
		links, right, all := wap5{}.Link(&set.Seen), 0, 0
		for i := range set.Calls {
			if set.Calls[i].Caller != client {
				all++
				right += count(links[i].Cause == set.Cause[i])
			}
		}
		got := float64(right) / float64(all)
		t.Logf("%g requests a second: %.3f", rate, got)
		if math.Abs(got-want[0]) > 0.03 {
			t.Errorf("%g requests a second: %.3f of the causes are right, want %.3f", rate, got,
				want[0])
		}
		for _, p := range placesOf(&set.Seen) {
			mean := wap5Means(p.arrivals(), p.departures(), isOtherCall)[c] / 1e6
			if p.number == b && want[1] > 0 && math.Abs(mean-want[1]) > 0.4 {
				t.Errorf("%g requests a second: b sends after %.2f ms, want %.2f", rate, mean,
					want[1])
			}
		}
		for i := range set.Calls {
			if k := &set.Calls[i]; k.Caller == b {
				k.Sent_ns += 7_000_000
			} else if k.Callee == b {
				k.Received_ns += 7_000_000
			}
		}
		if diff := cmp.Diff(links, wap5{}.Link(&set.Seen)); diff != "" {
			t.Errorf("%g requests a second: with another clock, links differ: %.300s", rate, diff)
		}
	}
}
