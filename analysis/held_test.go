package analysis

import (
	"math"
	"math/big"
	"slices"
	"strings"
	"testing"

	"github.com/cloudprofiler/cloudprofiler/internal/seed"
	"github.com/cloudprofiler/cloudprofiler/internal/simrun"
	"github.com/cloudprofiler/cloudprofiler/logstore"
	"github.com/cloudprofiler/cloudprofiler/tscratio"
)

func TestHold(t *testing.T) {
	for name, test := range map[string]struct {
		s, truth tscratio.Elapsed
		step     int // -1: outside
		most     float64
	}{
		"middle": {tscratio.Elapsed{Lo: 100, Hi: 140}, tscratio.Elapsed{Lo: 120, Hi: 120}, 0, 0},
		"half": {tscratio.Elapsed{Lo: 100, Hi: 140}, tscratio.Elapsed{Lo: 110, Hi: 110}, 10,
			0.5},
		"at_its_lo": {tscratio.Elapsed{Lo: 100, Hi: 140}, tscratio.Elapsed{Lo: 100, Hi: 100}, 19,
			1},
		"at_its_hi": {tscratio.Elapsed{Lo: 100, Hi: 140}, tscratio.Elapsed{Lo: 140, Hi: 140}, 19,
			1},
		"the_worse_end": {tscratio.Elapsed{Lo: -140, Hi: -100},
			tscratio.Elapsed{Lo: -120, Hi: -115}, 5, 0.25},
		"below": {tscratio.Elapsed{Lo: 100, Hi: 140}, tscratio.Elapsed{Lo: 99, Hi: 99}, -1,
			1.05},
		"above": {tscratio.Elapsed{Lo: 100, Hi: 140}, tscratio.Elapsed{Lo: 160, Hi: 160}, -1,
			2},
		"partly": {tscratio.Elapsed{Lo: 100, Hi: 140}, tscratio.Elapsed{Lo: 120, Hi: 141}, -1,
			1.05},
		"exact":           {tscratio.Elapsed{Lo: 7, Hi: 7}, tscratio.Elapsed{Lo: 7, Hi: 7}, 0, 0},
		"exact_and_wrong": {tscratio.Elapsed{Lo: 7, Hi: 7}, tscratio.Elapsed{Lo: 8, Hi: 8}, -1, 2},
		"widest": {tscratio.Elapsed{Lo: math.MinInt64, Hi: math.MaxInt64},
			tscratio.Elapsed{Lo: math.MaxInt64, Hi: math.MaxInt64}, 19, 1},
		"far": {tscratio.Elapsed{Lo: math.MinInt64, Hi: math.MinInt64},
			tscratio.Elapsed{Lo: math.MaxInt64, Hi: math.MaxInt64}, -1, mostUsed},
	} {
		var h Held
		h.checkTruth(test.s, test.truth)
		var used [UsedSteps]uint64
		if test.step >= 0 {
			used[test.step] = 1
		}
		if (h.Outside == 1) != (test.step < 0) || h.Count != 1 || h.Used != used ||
			math.Abs(h.MostUsed-test.most) > 1e-12 {
			t.Errorf("%s: %+v", name, h)
		}
	}
}

// checkTruth gives the same result as rational arithmetic, for random intervals.
func TestHoldIsExact(t *testing.T) {
	r := seed.Random(t)
	value := func() int64 { return int64(r.Uint64()) >> r.IntN(64) }
	for range 20_000 {
		s := tscratio.Elapsed{Lo: value(), Hi: value()}
		truth := tscratio.Elapsed{Lo: value(), Hi: value()}
		if s.Lo > s.Hi {
			s.Lo, s.Hi = s.Hi, s.Lo
		}
		if truth.Lo > truth.Hi {
			truth.Lo, truth.Hi = truth.Hi, truth.Lo
		}
		if r.IntN(2) == 0 { // a random truth is rarely inside the interval
			truth.Lo = max(s.Lo, min(truth.Lo, s.Hi))
			truth.Hi = truth.Lo
		}
		var h Held
		h.checkTruth(s, truth)
		inside := s.Lo <= truth.Lo && truth.Hi <= s.Hi
		if (h.Outside == 0) != inside {
			t.Fatalf("%v holds %v: %+v", s, truth, h)
		}
		if !inside || s.Lo == s.Hi {
			continue
		}
		rat := func(v int64) *big.Rat { return new(big.Rat).SetInt64(v) }
		middle := new(big.Rat).Quo(new(big.Rat).Add(rat(s.Lo), rat(s.Hi)), rat(2))
		half := new(big.Rat).Quo(new(big.Rat).Sub(rat(s.Hi), rat(s.Lo)), rat(2))
		worst := new(big.Rat)
		for _, v := range []int64{truth.Lo, truth.Hi} {
			off := new(big.Rat).Sub(rat(v), middle)
			if off.Abs(off).Cmp(worst) > 0 {
				worst = off
			}
		}
		steps := new(big.Rat).Mul(worst.Quo(worst, half), rat(UsedSteps))
		want := min(int(new(big.Int).Quo(steps.Num(), steps.Denom()).Int64()), UsedSteps-1)
		if h.Used[want] != 1 {
			t.Fatalf("%v holds %v: %+v, want step %d", s, truth, h, want)
		}
	}
}

func TestUsedPercentile(t *testing.T) {
	h := Held{Count: 11, Outside: 1, MostUsed: 3}
	h.Used[0], h.Used[9] = 8, 2
	for percent, want := range map[float64]float64{50: 0.05, 80: 0.05, 81: 0.5, 100: 0.5} {
		if got := h.UsedPercentile(percent); got != want {
			t.Errorf("p%v = %v, want %v", percent, got, want)
		}
	}
	if got := (&Held{}).UsedPercentile(50); got != 0 {
		t.Errorf("of nothing: %v", got)
	}
}

// chainTruth returns the truth about a run of simulated nodes, as Options.Truth. To make it false,
// a number of cycles is added to each true reading.
func chainTruth(nodes []simrun.Node, wrong uint64) func(string, uint64,
	string) (tscratio.Interval, bool) {
	return func(node string, reading uint64, other string) (tscratio.Interval, bool) {
		from, into := &nodes[node[0]-'A'], &nodes[other[0]-'A']
		if from == into {
			return tscratio.Interval{Lo: reading, Hi: reading}, true
		}
		// Two searches find the first moment (lo) and the last moment (last) at which the counter
		// shows the reading.
		lo, hi := uint64(0), uint64(1000*simrun.Hz)
		for lo < hi {
			if middle := lo + (hi-lo)/2; from.Reading(middle) >= reading {
				hi = middle
			} else {
				lo = middle + 1
			}
		}
		last := lo
		for from.Reading(last+1) == reading {
			last++
		}
		return tscratio.Interval{Lo: into.Reading(lo) + wrong, Hi: into.Reading(last) + wrong},
			from.Reading(lo) == reading
	}
}

// jobOf writes a run of two nodes whose truth is known.
func jobOf(t *testing.T, parent string) []simrun.Node {
	t.Helper()
	r := seed.Random(t)
	nodes := simrun.Nodes(r, 2)
	channels := []simrun.Channel{
		{Node: 0, Name: "a/start"}, {Node: 0, Name: "a/end"}, {Node: 1, Name: "b/start"},
	}
	at := uint64(20 * simrun.Hz)
	for id := range uint64(3000) {
		at += 1000 + r.Uint64N(100_000)
		passed := at
		for i := range channels {
			channels[i].Records = append(channels[i].Records, simrun.Record{Time: passed, ID: id})
			passed += 500 + r.Uint64N(50_000)
		}
	}
	for i := range channels {
		simrun.InOrder(channels[i].Records)
	}
	if err := simrun.Write(r, parent, "job", nodes, channels); err != nil {
		t.Fatal(err)
	}
	return nodes
}

// Every duration is compared with the truth. The result does not depend on how the work was
// divided.
func TestHeldAgainstTheTruth(t *testing.T) {
	parent := t.TempDir()
	nodes := jobOf(t, parent)
	dir := openRun(t, parent, "job")
	if a := analyze(t, dir, Options{}); a.Held != nil || a.Spans[0].All.Held != nil ||
		a.Comparisons[0].Methods[0].Held != nil {
		t.Error("without a truth something was held against it")
	}
	told := map[string][]int64{} // by span: the low ends of its durations
	truth := chainTruth(nodes, 0)
	a := analyze(t, dir, Options{Truth: truth, Reference: "B"})
	if a.Held == nil || a.Held.Count != 9000 || a.Held.Outside != 0 || a.Held.MostUsed > 1 ||
		a.Held.MostUsed == 0 || a.Partial {
		t.Fatalf("%+v, partial %v", a.Held, a.Partial)
	}
	var used uint64
	for _, n := range a.Held.Used {
		used += n
	}
	if used != a.Held.Count {
		t.Errorf("%d of %d used something of their bound", used, a.Held.Count)
	}
	single := analyze(t, dir,
		Options{Truth: truth, Reference: "B", Durations: func(d DurationRow) error {
			told[d.From+" "+d.To] = append(told[d.From+" "+d.To], d.Lo)
			return nil
		}})
	for i, l := range a.Spans {
		h := l.All.Held
		if h.Count != l.All.Count || len(told[l.From+" "+l.To]) != int(h.Count) {
			t.Errorf("%s: %d of %d held", l.From, h.Count, l.All.Count)
		}
		if !slices.Equal(h.True, single.Spans[i].All.Held.True) || single.Held.Used != a.Held.Used {
			t.Errorf("%s: one worker finds another truth", l.From)
		}
		p, q := l.All.Percentiles[4], h.True[4]
		if p.Percent != 50 || q.Percent != 50 || q.Lo_cycles < p.Lo_cycles ||
			q.Hi_cycles > p.Hi_cycles {
			t.Errorf("%s: the true median is %v, and %v was found", l.From, q, p)
		}
	}
	for _, m := range a.Comparisons[0].Methods {
		switch m.Name {
		case Ours, MinRTT:
			if m.Held == nil || m.Held.Count < 50 || m.Held.Outside > 0 {
				t.Errorf("%s: %+v", m.Name, m.Held)
			}
		default:
			if m.Held != nil {
				t.Errorf("%s, which claims nothing, was checked against the truth: %+v", m.Name,
					m.Held)
			}
		}
	}

	// A false truth is noticed, but only in durations between nodes.
	a = analyze(t, dir, Options{Truth: chainTruth(nodes, simrun.Hz/100), Reference: "B"})
	for _, l := range a.Spans {
		want := uint64(0)
		if l.To == "b/start" {
			want = l.All.Count
		}
		if l.All.Held.Outside != want {
			t.Errorf("%s to %s: %d outside, want %d", l.From, l.To, l.All.Held.Outside, want)
		}
	}
	if i := slices.IndexFunc(a.Findings, func(f Finding) bool {
		return f.Kind == FindImpossible && strings.Contains(f.Text, "do not contain the truth")
	}); i < 0 || !a.Partial {
		t.Errorf("partial %v, findings %v", a.Partial, a.Findings)
	}
	if h := a.Comparisons[0].Methods[0].Held; h.Outside != h.Count || !(h.MostUsed > 1) {
		t.Errorf("at moments: %+v", h)
	}
}

// The daemons of two virtual nodes describe one clock, the clock of their machine: if their claims
// differ, one claim is wrong.
func TestClaimsHeldAgainstTheTruth(t *testing.T) {
	parent := t.TempDir()
	nodes := jobOf(t, parent)
	dir := openRun(t, parent, "job")
	a := analyze(t, dir, Options{Reference: "A"})
	middle := uint64(a.Bins.From_cycles) + a.Bins.Width_cycles*uint64(a.Bins.Count)/2
	keep := func(node string, offsets ...int64) {
		var rows []logstore.NTP
		for i, offset := range offsets {
			at := middle + uint64(i)*a.Bins.Width_cycles*3
			if node == "B" {
				truth, ok := chainTruth(nodes, 0)("A", at, "B")
				for ; !ok; truth, ok = chainTruth(nodes, 0)("A", at, "B") {
					at++
				}
				at = truth.Lo
			}
			rows = append(rows, logstore.NTP{
				CounterLo: at, CounterHi: at, Offset_ns: offset, RootDispersion_ns: 30,
				RootDelay_ns: 20, Stratum: 2,
			})
		}
		keepClaims(t, dir.Path, node, "epoch-"+node, rows, 1)
	}
	// Each claim is true to within 40 ns, so the difference of two claims is true to within 80 ns.
	// An error of 60 ns is three quarters of that, and an error of 100 ns is outside.
	for _, test := range []struct {
		b       int64
		outside uint64
		most    float64
	}{{1000, 0, 0}, {1060, 0, 0.75}, {940, 0, 0.75}, {1100, 1, 1.25}, {-1000, 1, 25}} {
		keep("A", 1000)
		keep("B", test.b)
		m := methodsOf(t,
			analyze(t, dir, Options{Reference: "A", Truth: chainTruth(nodes, 0)}))[NTP]
		if m.Held == nil || m.Held.Count == 0 || m.Held.Count > 2 ||
			m.Held.Outside != test.outside*m.Held.Count ||
			math.Abs(m.Held.MostUsed-test.most) > 1e-9 || m.About == "" {
			t.Errorf("offsets 1000 and %d: %+v, about %q", test.b, m.Held, m.About)
		}
	}
	if m := methodsOf(t, analyze(t, dir, Options{Reference: "A"}))[NTP]; m.Held != nil ||
		m.About != "" {
		t.Errorf("without a truth: %+v", m)
	}
	// The claim is as large as a hostile file can make it. It is not compared, and nothing
	// overflows.
	keep("A", math.MinInt64)
	if m := methodsOf(t,
		analyze(t, dir, Options{Reference: "A", Truth: chainTruth(nodes, 0)}))[NTP]; m.Held != nil {
		t.Errorf("an offset of ages: %+v", m.Held)
	}
}
