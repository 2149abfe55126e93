package coordinator

import (
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
	for _, p := range givenUp {
		if f.core.wereMeasured(p) {
			t.Errorf("%v is known again", p)
		}
	}
}
