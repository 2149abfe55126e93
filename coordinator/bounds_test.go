package coordinator

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cloudprofiler/cloudprofiler/tscratio"
)

// In a large fleet, the server computes the bound of any pair on demand. The bound is true, and
// rests on measured pairs.
func TestBoundOfAnyPair(t *testing.T) {
	f := largeFleet(t, 18)
	f.wantGraph(time.Minute)
	f.run(time.Minute, func() bool { return f.core.sweep == nil && f.core.sweepBy.IsZero() })
	far := 0
	nodes := names(len(f.clients))
	for _, from := range nodes {
		for _, into := range nodes {
			if from == into {
				continue
			}
			a := answered[PairAnswer](t, f.ask(AskPair, PairRequest{from, into}))
			p := a.Pair
			x, y := f.clients[from], f.clients[into]
			at := time.Duration(float64(p.Reading_cycles-x.offset) / x.rate)
			if truth := y.counter(at); truth+2 < p.Lo_cycles || truth > p.Hi_cycles+2 {
				t.Errorf("%s into %s: [%d, %d], the truth is %d", from, into, p.Lo_cycles,
					p.Hi_cycles, truth)
			}
			if len(p.LoPath) > 2 && p.Direct_ns == 0 {
				far++
			}
			if len(a.Hops) == 0 || p.LoPath[0] != from || p.HiPath[len(p.HiPath)-1] != into {
				t.Errorf("%s into %s: %+v", from, into, a)
			}
			for _, h := range a.Hops {
				if h.Bound_ns == 0 || h.Verdict != "consistent" {
					t.Errorf("%s into %s rests on %+v", from, into, h)
				}
			}
		}
	}
	if far < 20 {
		t.Errorf("only %d pairs have no relation of their own", far)
	}
	for _, r := range []PairRequest{{"n00", "n00"}, {"n00", "stranger"}, {}} {
		if got := f.refusalText(AskPair, r); got == "" {
			t.Errorf("%v is answered", r)
		}
	}
}

// A pair is evaluated again only if it has new trains.
func TestPairsAreEvaluatedOnce(t *testing.T) {
	f := newFleet(t, testConfig(), names(3)...)
	f.wantSweep(time.Minute)
	f.ask(AskNodes, nil)
	before := map[pairKey]*evaluation{}
	for key, p := range f.core.pairs {
		before[key] = p.lastEvaluation
	}
	f.ask(AskNodes, nil)
	for key, p := range f.core.pairs {
		if before[key] == nil || p.lastEvaluation != before[key] {
			t.Errorf("%v is evaluated again", key)
		}
	}
	f.sweepAgain(SweepRequest{})
	f.wantTrue()
	f.ask(AskNodes, nil)
	for key, p := range f.core.pairs {
		if p.lastEvaluation == before[key] {
			t.Errorf("%v is not evaluated again", key)
		}
	}
	// An answer about a pair may rest on an earlier evaluation, but not on one from a minute ago.
	old := answered[PairAnswer](t, f.ask(AskPair, PairRequest{"n00", "n01"}))
	f.sweepAgain(SweepRequest{})
	f.run(time.Minute, nil)
	now := answered[PairAnswer](t, f.ask(AskPair, PairRequest{"n00", "n01"}))
	if !now.At.After(old.At) || now.Pair.Trains <= old.Pair.Trains {
		t.Errorf("a minute later the answer is still of %v, %d trains", now.At, now.Pair.Trains)
	}
	if !strings.Contains(f.refusalText(AskPair, PairRequest{"n00", "n09"}), "not known") {
		t.Error("an unknown node is known")
	}
}

// In a large fleet, pairs are evaluated in turns, and an answer uses these evaluations. Its bounds
// are true, and have the age of the trains that were evaluated. But an evaluation is not used if it
// may be false.
func TestPairsAreEvaluatedInTurns(t *testing.T) {
	f := largeFleet(t, 18)
	f.waitSettled()
	f.openRun("r")
	f.core.inTurns = true
	f.run(45*time.Second, nil) // nobody asks
	before := map[pairKey]*evaluation{}
	older := 0
	for names, key := range f.core.current {
		p := f.core.pairs[key]
		e := p.lastEvaluation
		switch {
		case e == nil: // it was first measured after this round of turns began
		case e.version == p.version:
			before[key] = e
		case f.core.now().Sub(e.at) > reusedFor:
			t.Errorf("%v was evaluated %v ago", names, f.core.now().Sub(e.at))
		default:
			before[key] = e
			older++
		}
	}
	if len(before) < len(f.core.current)*3/4 || older < len(before)/2 {
		t.Fatalf("%d of %d pairs had their turns, and %d of these have newer trains", len(before),
			len(f.core.current), older)
	}
	for _, p := range f.wantTrue().Pairs {
		names := [2]string{min(p.From, p.Into), max(p.From, p.Into)}
		key := f.core.current[names]
		e := before[key]
		if e == nil {
			continue // it was never measured
		}
		if f.core.pairs[key].lastEvaluation != e {
			t.Errorf("%v is evaluated again", names)
		}
		if age := int64(f.core.now().Sub(e.reportedAt)); p.Age_ns != age ||
			p.Reading_cycles != e.readA && p.Reading_cycles != e.readB {
			t.Errorf("%v has a bound of %d ns ago, want %d ns", names, p.Age_ns, age)
		}
	}
	var some *pair
	for _, key := range f.core.current {
		some = f.core.pairs[key]
	}
	f.core.dropTrains(some, "the clock is not shared")
	if f.core.evaluated.Load() != nil {
		t.Error("an answer about a pair may rest on trains that were dropped")
	}
	f.ask(AskNodes, nil)
	if some.lastEvaluation == before[some.key] {
		t.Error("the evaluation of trains that were dropped is used")
	}
	f.core.inTurns = false // only questions evaluate now
	f.run(reusedFor+time.Second, nil)
	f.core.inTurns = true
	f.ask(AskNodes, nil)
	for key, e := range before {
		if p := f.core.pairs[key]; p != nil && p.lastEvaluation == e && p.version != e.version {
			t.Errorf("%v is not evaluated again after %v", key, reusedFor)
		}
	}
}

// If there are so many pairs that evaluating each of them in turn takes too long, the server does
// not evaluate pairs in turn.
func TestTooManyPairsHaveNoTurns(t *testing.T) {
	f := largeFleet(t, 18)
	f.waitSettled()
	evaluated := func() (n int) {
		for _, key := range f.core.current {
			if p := f.core.pairs[key]; p != nil && p.lastEvaluation != nil {
				n++
			}
		}
		return n
	}
	before, measured := evaluated(), len(f.core.current)
	f.core.inTurns = true
	for i := range maxInTurns + 1 - measured {
		f.core.current[[2]string{"other", fmt.Sprint(i)}] = pairKey{}
	}
	f.core.stepTurn()
	if n := evaluated(); n != before {
		t.Errorf("%d of %d pairs had their turns", n-before, len(f.core.current))
	}
	delete(f.core.current, [2]string{"other", "0"})
	f.core.turnAt = time.Time{}
	f.core.stepTurn()
	if n := evaluated(); n == before {
		t.Errorf("none of %d pairs had its turn", len(f.core.current))
	}
}

// The short answer about a large fleet says the same as the long one.
func TestShortAnswerOfALargeFleet(t *testing.T) {
	f := largeFleet(t, 12)
	f.waitSettled()
	long := answered[Matrix](t, f.ask(AskNodes, nil))
	short := answered[Matrix](t, f.ask(AskNodes, NodesRequest{ListMost: 11}))
	same := answered[Matrix](t, f.ask(AskNodes, NodesRequest{ListMost: 12}))
	if short.Summary == nil || same.Summary != nil || len(same.Pairs) != len(long.Pairs) {
		t.Fatalf("%+v, %+v", short, same.Summary)
	}
	if n := len(short.Nodes) + len(short.Pairs) + len(short.Faults); n > 0 {
		t.Errorf("the short answer lists %d nodes, pairs and faults", n)
	}
	want := long.Summarize()
	got := short.Summarize()
	if got.Nodes != 12 || got.Here != 12 || got.Related != want.Related ||
		got.Faults != want.Faults || short.Healthy() != long.Healthy() ||
		!slices.Equal(got.Measured.Bounds_ns, want.Measured.Bounds_ns) ||
		len(got.Largest) != largestPairs ||
		got.Largest[0].Bound_ns != want.Measured.Bounds_ns[want.Measured.Count-1] {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
}

// A distribution of many bounds keeps its smallest bound, its largest one and its percentiles.
func TestDistributionOfManyBounds(t *testing.T) {
	var all []float64
	for i := range 12_345 {
		all = append(all, float64(i*i))
	}
	d := newDistribution(all)
	if d.Count != len(all) || len(d.Bounds_ns) != 401 {
		t.Fatalf("%d bounds, of which %d are kept", d.Count, len(d.Bounds_ns))
	}
	for _, percent := range []int{0, 50, 90, 99, 100} {
		if got, want := d.At(percent), all[(len(all)-1)*percent/100]; got != want {
			t.Errorf("%d %%: %v, want %v", percent, got, want)
		}
	}
}

// askNow asks for the bound of a pair, and compares it with the truth. The bound must be about the
// present.
func (f *fleet) askNow(from, into string) PairAnswer {
	f.t.Helper()
	a := answered[PairAnswer](f.t, f.ask(AskPair, PairRequest{from, into}))
	p := a.Pair
	if truth, ok := f.holdsTruth(p); !ok {
		f.t.Errorf("%s into %s: [%d, %d], the truth is %d", from, into, p.Lo_cycles, p.Hi_cycles,
			truth)
	}
	const second_cycles = 2_600_000_000
	if now := f.clients[from].counter(f.time); a.Ago_ns != 0 ||
		p.Reading_cycles > now+second_cycles || p.Reading_cycles+second_cycles < now {
		f.t.Errorf("%s into %s: the answer is about the reading %d, %d ns ago, and now it is %d",
			from, into, p.Reading_cycles, a.Ago_ns, now)
	}
	return a
}

// askAll asks for the bounds of all pairs. It returns how many of them rest on one of the edges.
func (f *fleet) askAll(edges [][2]string) (onEdges int) {
	f.t.Helper()
	for from := range f.clients {
		for into := range f.clients {
			if from == into {
				continue
			}
			if slices.ContainsFunc(f.askNow(from, into).Hops, func(h Hop) bool {
				return slices.Contains(edges, [2]string{min(h.From, h.Into), max(h.From, h.Into)})
			}) {
				onEdges++
			}
		}
	}
	return onEdges
}

// waitSettled waits until each edge of a large fleet is measured.
func (f *fleet) waitSettled() {
	f.t.Helper()
	f.wantGraph(time.Minute)
	f.run(time.Minute, func() bool { return f.core.sweep == nil && f.core.sweepBy.IsZero() })
}

// If nodes join, other nodes give up edges to make room. The server uses the relations of these
// edges as long as the relations say something about the present. No bound that rests on the
// relations is false. Ten minutes later the server forgets the relations, but a run has all trains
// of these edges.
func TestAnswersFromEdgesGivenUp(t *testing.T) {
	f := largeFleet(t, 12)
	f.waitSettled()
	f.openRun("r")
	f.run(10*time.Second, nil)
	before := f.core.edges()
	for _, name := range []string{"x", "y", "z"} {
		f.join(name)
		f.clients[name].asMember()
		f.clients[name].connect()
	}
	f.waitSettled()
	f.run(20*time.Second, nil)
	var givenUp [][2]string
	for _, p := range before {
		if !slices.Contains(f.core.edges(), p) {
			givenUp = append(givenUp, p)
		}
	}
	if len(givenUp) < 3 {
		t.Errorf("only the edges %v were given up", givenUp)
	}
	f.askAll(nil)
	// Paths over third nodes may make a bound narrower. Without third nodes, the bound must rest on
	// the edge itself.
	f.core.config.ThirdNodes = tscratio.ThirdNone
	f.core.evaluated.Store(nil)
	for _, p := range givenUp {
		if a := f.askNow(p[0], p[1]); len(a.Hops) != 1 || !a.Hops[0].GivenUp {
			t.Errorf("%v: without third nodes the bound rests on %+v", p, a.Hops)
		}
	}
	f.core.config.ThirdNodes = tscratio.ThirdAgreed
	f.core.evaluated.Store(nil)
	age := func(d time.Duration) { // as if the edges had been given up earlier
		for _, p := range givenUp {
			f.core.pairs[f.core.current[p]].reportedAt = f.now().Add(-d)
		}
	}
	age(2 * f.config.Assumptions.ExtrapolationLimit)
	f.run(5*time.Second, nil)
	if n := f.askAll(givenUp); n > 0 {
		t.Errorf("%d bounds rest on edges that were given up long ago", n)
	}
	age(keptGivenUp - 2*time.Minute)
	f.run(time.Minute, nil)
	for _, p := range givenUp {
		if !f.core.wereMeasured(p) {
			t.Errorf("%v is forgotten too early", p)
		}
	}
	age(keptGivenUp)
	f.run(65*time.Second, nil)
	f.askAll(nil)
	isEdge := func(p [2]string) bool { return slices.Contains(f.core.edges(), p) }
	givenUp = slices.DeleteFunc(givenUp, isEdge) // the graph may have made an edge again
	for _, p := range givenUp {
		if kept := f.core.pairs[pairKey{p[0], p[1], "e1", "e1"}]; f.core.wereMeasured(p) ||
			kept == nil || kept.liveTrains.Trains() > 0 {
			t.Errorf("%v is not forgotten, or the run lacks it", p)
		}
	}
	f.ask(AskStopRun, nil)
	if !f.run(10*time.Minute, func() bool { return f.core.run == nil }) {
		t.Fatalf("the run is %s", f.phase())
	}
	relations, _ := f.readRun().Relations()
	givenUp = slices.DeleteFunc(givenUp, isEdge)
	for _, p := range givenUp {
		if f.core.pairs[pairKey{p[0], p[1], "e1", "e1"}] != nil {
			t.Errorf("%v is kept after the run", p)
		}
		if !slices.ContainsFunc(relations, func(r *tscratio.Pair) bool {
			return r.A.Name == p[0] && r.B.Name == p[1] && r.Trains() >= 8
		}) {
			t.Errorf("the run lacks trains of %v", p)
		}
	}
	f.restart()
	f.run(20*time.Second, nil)
	givenUp = slices.DeleteFunc(givenUp, isEdge)
	for _, p := range givenUp {
		if f.core.wereMeasured(p) {
			t.Errorf("%v is known again", p)
		}
	}
	if len(givenUp) == 0 {
		t.Error("no edge stayed given up")
	}
}
